-- replay, look, stats: for whoever is on call.

-- Every verb that a person calls writes here what was changed, in the same commit. Who says nothing of himself is
-- the user of the database; '' is no person: code that acts by itself.
create function onceward.account(
  actor text, what text, scope text default null, key text default null, reason text default null,
  detail text default null
) returns void
  language sql volatile
  as $fn$
    insert into onceward.audit (changed_at, actor, what, scope, key, reason, detail)
    select onceward.now(), coalesce(actor, session_user), what, scope, key, reason, detail where actor is distinct from ''
  $fn$;

-- replay: run known tasks again, each through the same claim as a first run.
--   {"outcome": "replayed"}            it was dead, ignored, cancelled or unknown, or waited for later: due now,
--                                      with its tries given back and its finished steps kept
--   {"outcome": "replayed again"}      it was done, and `again` asked for a new generation: no steps, the
--                                      same effect keys
--   {"outcome": "done" | "running"}    left alone
--   {"outcome": "pruned" | "missing"}  its payload, or all of it, is gone
create function onceward.replay_many(
  scopes text[], keys text[], again text default 'false', actor text default null, reason text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  item record;
  t onceward.task;
  answers jsonb := '{}';
  outcome text;
begin
  -- In one order for everybody, so that two who replay the same ones do not lock crosswise.
  for item in
    select u.* from unnest(scopes, keys) with ordinality as u(scope, key, i) order by u.key, u.scope, u.i
  loop
    select * into t from onceward.task k where k.scope = item.scope and k.key = item.key for update;
    outcome := case
      when not found then 'missing'
      when t.state = 'running' and t.due_at > onceward.now() then 'running'
      when t.state = 'done' and not again::boolean then 'done'
      when not exists (select from onceward.payload p where p.scope = t.scope and p.key = t.key) then 'pruned'
      when t.state = 'done' then 'replayed again'
      else 'replayed'
    end;
    if outcome like 'replayed%' then
      perform onceward.revive(t, outcome, onceward.now(), actor, reason);
    end if;
    answers := answers || jsonb_build_object(item.i, jsonb_build_object('outcome', outcome));
  end loop;
  return (select coalesce(jsonb_agg(answers -> i::text order by i), '[]') from generate_series(1, cardinality(keys)) as i);
end
$fn$;

-- A task that its caller has locked waits again, from `due` on. What still believes to run it is fenced off.
create function onceward.revive(t onceward.task, outcome text, due timestamptz, actor text, reason text) returns void
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
begin
  if outcome = 'replayed again' then
    delete from onceward.result r where r.scope = t.scope and r.key = t.key;
  end if;
  update onceward.task k set state = 'waiting', due_at = due, finished_at = null, tries = 0,
    behind = null, attempt = k.attempt + 1,
    generation = k.generation + case when outcome = 'replayed again' then 1 else 0 end
  where k.scope = t.scope and k.key = t.key;
  insert into onceward.log (scope, key, logged_at, what, attempt, actor, detail)
  values (t.scope, t.key, onceward.now(), outcome, t.attempt, nullif(actor, ''), reason);
  perform onceward.account(actor, outcome, t.scope, t.key, reason, 'it was ' || t.state);
end
$fn$;

create function onceward.replay(
  scope text, key text, again text default 'false', actor text default null, reason text default null
) returns jsonb
  language sql volatile
  as $fn$ select onceward.replay_many(array[scope], array[key], again, actor, reason) -> 0 $fn$;

-- look: all that the ledger knows of one task but its payload, or null.
create function onceward.look(scope text, key text) returns jsonb
  language sql stable
  as $fn$
    select to_jsonb(t) || jsonb_build_object(
      'result', (select r.value from onceward.result r where r.scope = t.scope and r.key = t.key),
      'steps', onceward.steps(t.scope, t.key),
      'signals', onceward.signals(t.scope, t.key),
      'log', (select coalesce(jsonb_agg(to_jsonb(l) - 'scope' - 'key' order by l.logged_at), '[]')
        from onceward.log l where l.scope = t.scope and l.key = t.key))
    from onceward.task t where t.scope = look.scope and t.key = look.key
  $fn$;

-- payload: the stored bytes of one task: {"body": text} or {"bytes": base64}, or null.
create function onceward.payload(scope text, key text) returns jsonb
  language sql stable
  as $fn$
    select jsonb_strip_nulls(jsonb_build_object('body', p.body, 'bytes', encode(p.bytes, 'base64')))
    from onceward.payload p where p.scope = payload.scope and p.key = payload.key
  $fn$;

-- stats: what waits, runs and is parked, by scope. It reads the indexes of what is unfinished or
-- parked, so its cost follows the backlog and not the history.
create function onceward.stats() returns jsonb
  language sql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
    with clock as materialized (select onceward.now() as at)
    select jsonb_build_object(
      'unfinished', (select coalesce(jsonb_agg(to_jsonb(u)), '[]') from (
        select t.scope,
          count(*) filter (where t.state = 'waiting' and t.due_at <= clock.at) as due,
          count(*) filter (where t.state = 'waiting' and t.due_at > clock.at) as later,
          count(*) filter (where t.state = 'running') as running,
          round(extract(epoch from clock.at - min(t.due_at) filter (where t.due_at <= clock.at)) * 1000.0) as oldest_due_ms,
          round(extract(epoch from clock.at - min(t.started_at) filter (where t.state = 'running')) * 1000.0) as oldest_running_ms
        from onceward.task t, clock where t.due_at is not null group by t.scope, clock.at order by t.scope) u),
      'parked', (select coalesce(jsonb_agg(to_jsonb(p)), '[]') from (
        select t.scope, t.state, count(*) as count from onceward.task t
        where t.state in ('dead', 'ignored', 'cancelled', 'unknown') group by t.scope, t.state order by t.scope, t.state) p))
  $fn$;

-- wake: workers that listen look for due work at once instead of at their next poll. Not part of record:
-- every commit that notifies waits for every other one, so this is said outside, and seldom.
create function onceward.wake(lanes text[]) returns jsonb
  language sql volatile
  as $fn$ select to_jsonb(count(pg_notify('onceward', l.lane)::text)) from unnest(lanes) as l(lane) $fn$;

-- hello: a worker says that it is there and which lanes it runs; workers unseen for a day are forgotten.
create function onceward.hello(worker text, lanes text[]) returns jsonb
  language plpgsql volatile
  as $fn$
begin
  insert into onceward.worker as w (id, lanes, started_at, seen_at)
  values (hello.worker, hello.lanes, onceward.now(), onceward.now())
  on conflict (id) do update set seen_at = excluded.seen_at, lanes = excluded.lanes;
  delete from onceward.worker w where w.seen_at < onceward.now() - interval '1 day';
  return '"hello"';
end
$fn$;

create function onceward.goodbye(worker text) returns jsonb
  language plpgsql volatile
  as $fn$
begin
  delete from onceward.worker w where w.id = goodbye.worker;
  return '"goodbye"';
end
$fn$;
