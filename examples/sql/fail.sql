-- Say that an attempt failed. It is tried again after a backoff; with 'never' it is dead at once, with
-- 'unknown' it is parked for a person to decide.
--   psql "$DATABASE_URL" -f examples/sql/fail.sql

select claim ->> 'attempt' as attempt
from onceward.claim('job/report', 'report 2026-11', '60 seconds', 'psql') as claim \gset

select onceward.fail('job/report', 'report 2026-11', :'attempt', 'the numbers are not in yet', '1 hour');

-- What the ledger knows of it. Mended? Run it now.
select jsonb_pretty(onceward.look('job/report', 'report 2026-11') - 'log');
select onceward.replay('job/report', 'report 2026-11', 'false', 'ann', 'the numbers are in');
