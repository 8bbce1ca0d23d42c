-- Every later migration ends with the same three lines.
-- Functions are executable by everybody until that is revoked; on a hosted Postgres "everybody" can
-- include anonymous web clients. Only the owner may use the ledger; grant it to a role of your own with
--   grant usage on schema onceward to app;
--   grant select, insert, update, delete on all tables in schema onceward to app;
--   grant execute on all routines in schema onceward to app;
revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
