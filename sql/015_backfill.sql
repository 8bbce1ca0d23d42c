-- backfill: what a walk over a sender's list of events needs of the ledger. Where it stands is a row of `cursor`.

-- cursor_read: {"value": text or null, "now": seconds, "began": seconds or null}
-- began: when the first task of this lane was recorded. What happened before was somebody else's to handle.
create function onceward.cursor_read(name text, lane text default null) returns jsonb
  language sql volatile
  as $fn$
    select jsonb_build_object(
      'value', (select c.value from onceward.cursor c where c.name = cursor_read.name),
      'now', extract(epoch from onceward.now()),
      'began', (select extract(epoch from min(t.created_at)) from onceward.task t
        where (t.scope = lane or (t.scope > lane || '/' and t.scope < lane || '0'))
          and not exists (select from onceward.cursor c where c.name = cursor_read.name)))
  $fn$;

-- cursor_move: a compare-and-set, so that of two who walk at once one notices.
--   true, or false where it does not stand at `expected` (null: it was never there)
create function onceward.cursor_move(name text, expected text, value text) returns jsonb
  language plpgsql volatile
  as $fn$
begin
  if expected is null then
    insert into onceward.cursor (name, value, moved_at) values (cursor_move.name, cursor_move.value, onceward.now())
    on conflict do nothing;
  else
    update onceward.cursor c set value = cursor_move.value, moved_at = onceward.now()
    where c.name = cursor_move.name and c.value = expected;
  end if;
  return to_jsonb(found);
end
$fn$;

-- known: which of these are in the ledger. [true | false, …]
create function onceward.known(scopes text[], keys text[]) returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_agg(exists (select from onceward.task t where t.scope = u.scope and t.key = u.key) order by u.i), '[]')
    from unnest(scopes, keys) with ordinality as u(scope, key, i)
  $fn$;

-- attended: has a worker of this lane been seen lately? They say hello every half minute.
create function onceward.attended(lane text) returns jsonb
  language sql volatile
  as $fn$
    select to_jsonb(exists (select from onceward.worker w
      where lane = any (w.lanes) and w.seen_at > onceward.now() - interval '2 minutes'))
  $fn$;

-- backfilled: somebody has fetched what was missing by hand; for the audit.
create function onceward.backfilled(actor text, source text, reason text default null, detail text default null)
  returns jsonb
  language plpgsql volatile
  as $fn$
begin
  perform onceward.account(actor, 'backfill', source, null, reason, detail);
  return '"noted"';
end
$fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
