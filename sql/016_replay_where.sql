-- replay by filter: all that matched when it began, in batches, so that it can go on after its process died. What
-- fails again meanwhile is not taken a second time: only what was parked, or failed last, before it began.
-- `rate` a second at most: each gets its own time to be due, so that live work keeps its place, and nothing need
-- keep running for it.
--
-- replay_begin: {"name": n, "found": n}    what a later replay_next(name) goes on with
-- replay_next:  {"replayed": n, "total": n, "scopes": […], "ended": bool} | {"outcome": "missing"}
-- filter: as in conditions, with states of dead, failed, ignored, cancelled, unknown, or done with `again`.
create function onceward.replayable(run jsonb) returns text
  language sql stable
  as $fn$
    select onceward.conditions(run -> 'filter')
      || ' and coalesce(t.finished_at, t.started_at) <= ' || quote_literal(run ->> 'begun_at')
      || ' and exists (select from onceward.payload p where p.scope = t.scope and p.key = t.key)'
      -- What came under a known id with other content is for a person to look at; and who runs an event again
      -- runs the parts of its handlers with it. Both can be named by their scope.
      || case when run -> 'filter' ? 'scope' then '' else ' and strpos(t.scope, ''/!'') = 0'
        || case when (run ->> 'again')::boolean then ' and strpos(t.scope, ''/#'') = 0' else '' end end
  $fn$;

create function onceward.replay_count(filter text, again text default 'false') returns jsonb
  language plpgsql stable set jit = off
  as $fn$
declare
  n bigint;
begin
  execute 'select count(*) from onceward.task t where ' || onceward.replayable(jsonb_build_object(
    'filter', filter::jsonb, 'again', again::boolean, 'begun_at', onceward.now())) into n;
  return to_jsonb(n);
end
$fn$;

-- replay_find: [{"scope", "key"}, …] of what a replay would take now, the newest first, at most `max`.
create function onceward.replay_find(filter text, again text default 'false', max text default '100') returns jsonb
  language plpgsql stable set jit = off
  as $fn$
declare
  answer jsonb;
begin
  execute 'select coalesce(jsonb_agg(to_jsonb(found)), ''[]'') from (
      select t.scope, t.key from onceward.task t where ' || onceward.replayable(jsonb_build_object(
    'filter', filter::jsonb, 'again', again::boolean, 'begun_at', onceward.now())) || '
      order by t.created_at desc, t.scope, t.key limit $1
    ) found'
  into answer using replay_find.max::integer;
  return answer;
end
$fn$;

create function onceward.replay_begin(
  name text, filter text, again text default 'false', rate text default null, actor text default null,
  reason text default null
) returns jsonb
  language plpgsql volatile set jit = off
  as $fn$
declare
  run jsonb := jsonb_build_object('filter', filter::jsonb, 'again', again::boolean, 'rate', rate::numeric,
    'actor', coalesce(actor, session_user), 'reason', reason, 'begun_at', onceward.now(), 'total', 0, 'next_at', null);
  n bigint;
begin
  if filter::jsonb -> 'states' is null or exists (select from jsonb_array_elements_text(filter::jsonb -> 'states') as s(state)
      where s.state not in ('dead', 'failed', 'ignored', 'cancelled', 'unknown') and not (s.state = 'done' and again::boolean))
    or rate::numeric <= 0.0 then
    return '{"outcome": "refused", "code": "value_invalid"}';
  end if;
  n := onceward.replay_count(filter, again)::bigint;
  insert into onceward.cursor (name, value, moved_at)
  values ('replay ' || replay_begin.name, (run || jsonb_build_object('found', n))::text, onceward.now());
  perform onceward.account(actor, 'replay begun', null, null, reason, replay_begin.name || ': ' || n || ' tasks, ' || filter);
  return jsonb_build_object('name', replay_begin.name, 'found', n);
end
$fn$;

create function onceward.replay_next(name text, max text default '500') returns jsonb
  language plpgsql volatile set jit = off
  as $fn$
declare
  run jsonb;
  t onceward.task;
  due timestamptz;
  pause interval;
  n integer := 0;
  scopes text[] := '{}';
begin
  -- Two who go on with the same one take turns.
  select c.value::jsonb into run from onceward.cursor c where c.name = 'replay ' || replay_next.name for update;
  if not found then
    return '{"outcome": "missing"}';
  end if;
  pause := coalesce(interval '1 second' / (run ->> 'rate')::float8, '0');
  due := greatest((run ->> 'next_at')::timestamptz, onceward.now());
  -- Whoever holds one of them is changing it this moment: replaying, cancelling or pruning it.
  for t in execute 'select t.* from onceward.task t where ' || onceward.replayable(run)
    || ' order by t.created_at, t.scope, t.key limit $1 for update of t skip locked' using replay_next.max::integer
  loop
    perform onceward.revive(t, case when t.state = 'done' then 'replayed again' else 'replayed' end, due,
      run ->> 'actor', run ->> 'reason');
    due := due + pause;
    n := n + 1;
    if not t.scope = any (scopes) then
      scopes := scopes || t.scope;
    end if;
  end loop;
  run := run || jsonb_build_object('total', (run ->> 'total')::bigint + n, 'next_at', due);
  if n < replay_next.max::integer then
    delete from onceward.cursor c where c.name = 'replay ' || replay_next.name;
    perform onceward.account(run ->> 'actor', 'replay ended', null, null, run ->> 'reason',
      replay_next.name || ': ' || (run ->> 'total') || ' of ' || (run ->> 'found') || ' tasks');
  else
    update onceward.cursor c set value = run::text, moved_at = onceward.now() where c.name = 'replay ' || replay_next.name;
  end if;
  return jsonb_build_object('replayed', n, 'total', run -> 'total', 'found', run -> 'found', 'scopes', scopes,
    'last_due_in_ms', greatest(0, round(extract(epoch from due - pause - onceward.now()) * 1000.0)),
    'ended', n < replay_next.max::integer);
end
$fn$;

-- replays: those that have not come to their end: one can go on with them.
create function onceward.replays() returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_agg(c.value::jsonb || jsonb_build_object('name', substr(c.name, 8), 'moved_at', c.moved_at)
      order by c.moved_at), '[]')
    from onceward.cursor c where starts_with(c.name, 'replay ')
  $fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
