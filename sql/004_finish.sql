-- complete, fail, defer, cancel: how a claim ends. Each carries its attempt; a stale one changes
-- nothing and answers "lost".

-- The next of the groups that these tasks belong to may run. In one order, so that two batches
-- cannot wait for each other.
create function onceward.release_groups(scopes text[], serials text[]) returns void
  language plpgsql volatile
  as $fn$
declare
  g record;
begin
  for g in
    select distinct u.scope, u.serial, onceward.group_lock(u.scope, u.serial) as lock
    from unnest(scopes, serials) as u(scope, serial) where u.serial is not null order by 3
  loop
    perform onceward.release(g.scope, g.serial);
  end loop;
end
$fn$;

-- One task alone, as at the end of a handler's transaction: true if it was ours to complete. Two thirds of what it costs
-- the server as a list of one. Its callers say how it is planned.
create function onceward.complete_one(scope text, key text, attempt text, result text) returns boolean
  language plpgsql volatile
  as $fn$
declare
  own_group text;
begin
  update onceward.task t set state = 'done', due_at = null, finished_at = onceward.now(), reason = null
  where t.scope = complete_one.scope and t.key = complete_one.key and t.attempt = complete_one.attempt::integer
    and t.state = 'running'
  returning t.serial into own_group;
  if not found then
    return false;
  end if;
  if result is not null then
    insert into onceward.result as r (scope, key, value) values (complete_one.scope, complete_one.key, result)
    on conflict on constraint result_pkey do update set value = excluded.value;
  end if;
  if own_group is not null then
    perform onceward.release_groups(array[scope], array[own_group]);
  end if;
  return true;
end
$fn$;

-- Whether this very attempt has completed the task: asked by who does not know what became of its last word. A later
-- generation that has not been claimed yet is not done, and one that was has another attempt. Volatile, for a snapshot
-- of its own: that last word may have been on its way still, and committed while who asks waited for the row.
create function onceward.is_done_by(scope text, key text, attempt text) returns boolean
  language plpgsql volatile set enable_seqscan = off
  as $fn$
begin
  return exists (select from onceward.task t where t.scope = is_done_by.scope and t.key = is_done_by.key
    and t.attempt = is_done_by.attempt::integer and t.state = 'done');
end
$fn$;

-- complete: ["done" | "kept" | "lost", …]. A result (JSON) is kept where there is one. "kept": this very attempt has
-- completed it before, and the answer to that was lost on its way; nothing changed now.
-- Called inside the handler's transaction as its last statement, it commits with the handler's rows.
create function onceward.complete_many(scopes text[], keys text[], attempts text[], results text[] default null)
  returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  done bigint[];
  in_groups text[];
  groups text[];
begin
  if cardinality(keys) = 1 then
    return case when onceward.complete_one(scopes[1], keys[1], attempts[1], results[1]) then '["done"]'
      when onceward.is_done_by(scopes[1], keys[1], attempts[1]) then '["kept"]' else '["lost"]' end;
  end if;
  with item as (
    -- In one order for everybody, so that batches do not lock crosswise.
    select u.* from unnest(scopes, keys, attempts::integer[], results) with ordinality
      as u(scope, key, attempt, result, i)
    order by u.key, u.scope
  ), finished as (
    update onceward.task t set state = 'done', due_at = null, finished_at = onceward.now(), reason = null
    from item u
    where t.scope = u.scope and t.key = u.key and t.attempt = u.attempt and t.state = 'running'
    returning u.i, t.scope, t.key, t.serial, u.result
  ), kept as (
    insert into onceward.result as r (scope, key, value)
    select f.scope, f.key, f.result from finished f where f.result is not null
    on conflict (scope, key) do update set value = excluded.value
  )
  select array_agg(f.i), array_agg(f.scope) filter (where f.serial is not null),
      array_agg(f.serial) filter (where f.serial is not null)
    into done, in_groups, groups
  from finished f;
  if groups is not null then
    perform onceward.release_groups(in_groups, groups);
  end if;
  if cardinality(done) = cardinality(keys) then
    return to_jsonb(array_fill('done'::text, array[cardinality(keys)]));
  end if;
  return (select coalesce(jsonb_agg(case when i = any (done) then 'done'
      when onceward.is_done_by(scopes[i], keys[i], attempts[i]) then 'kept' else 'lost' end order by i), '[]')
    from generate_series(1, cardinality(keys)) as i);
end
$fn$;

create function onceward.complete(scope text, key text, attempt text, result text default null) returns jsonb
  language sql volatile
  as $fn$ select onceward.complete_many(array[scope], array[key], array[attempt], array[result]) -> 0 $fn$;

-- The same as the last word of a transaction, sent along with its commit: raises where the claim is lost (OW001) or this
-- attempt has completed it before (OW002), so that the commit undoes all. A procedure, since the arguments of a call
-- are not planned, and without lists and JSON: three quarters of the instructions that the batch form takes for one.
create procedure onceward.complete_last(scope text, key text, attempt text, result text default null)
  language plpgsql set enable_seqscan = off
  as $fn$
begin
  if not onceward.complete_one(scope, key, attempt, result) then
    if onceward.is_done_by(scope, key, attempt) then
      raise exception using errcode = 'OW002', message = 'onceward: kept';
    end if;
    raise exception using errcode = 'OW001', message = 'onceward: lost';
  end if;
end
$fn$;

-- What a process has finished and what it records next, in one statement and one commit: a statement costs the server
-- as much as ten of its tasks. Never of tasks in a group: to let the next one in takes the group's lock, and whoever waits
-- for a key below would hold it. The completions come first: an insert may wait for somebody's open transaction, and
-- leases count from its end. Whoever has recorded such a key in his transaction and then cancels one of the completed
-- can deadlock with that; Postgres then ends one of both, and each is tried again.
--   {"completed": [as complete], "recorded": [as record]}
create function onceward.complete_and_record_many(
  done_scopes text[], done_keys text[], done_attempts text[], done_results text[],
  scopes text[], keys text[], bodies text[], types text[] default null, fingerprints text[] default null,
  options text[] default null, lease text default null, worker text default null
) returns jsonb
  language plpgsql volatile
  as $fn$
declare
  completed constant jsonb := onceward.complete_many(done_scopes, done_keys, done_attempts, done_results);
begin
  return jsonb_build_object('completed', completed,
    'recorded', onceward.record_many(scopes, keys, bodies, types, fingerprints, options, lease, worker));
end
$fn$;

-- The same for a driver that sends its arrays as they are, as record_call.
create procedure onceward.complete_and_record_call(
  done_scopes text[], done_keys text[], done_attempts text[], done_results text[],
  scopes text[], keys text[], bodies text[], types text[], fingerprints text[], options text[], lease text,
  worker text, lock_wait text default null, inout answer jsonb default null
)
  language plpgsql
  as $fn$
begin
  if lock_wait is not null then
    perform set_config('lock_timeout'::text, lock_wait, true);
  end if;
  answer := onceward.complete_and_record_many(done_scopes, done_keys, done_attempts, done_results, scopes, keys, bodies,
    types, fingerprints, options, lease, worker);
end
$fn$;

-- fail: this attempt did not succeed. ["waiting" | "dead" | "unknown" | "done" | "lost", …]. "done": it did succeed,
-- and only the answer to its completion was lost on its way; nothing changed now.
-- retries, one an item:
--   null       again after a backoff: 2 s, doubled each try up to 4 h, of which up to a half is taken
--              off at random, so that what failed together does not come back together.
--              30 tries then span about three days: broken on Friday evening, mended on Monday.
--   interval   again after exactly that long
--   'never'    dead at once: trying again cannot help
--   'unknown'  parked: nobody knows whether the outside effect took place
create function onceward.fail_many(scopes text[], keys text[], attempts text[], reasons text[],
    retries text[] default null)
  returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  states jsonb;
  in_groups text[];
  groups text[];
begin
  with item as (
    select u.i, u.scope, u.key, u.attempt, u.retry,
      left(coalesce(nullif(u.reason, ''), 'failed without a message'), 2000) as reason
    from unnest(scopes, keys, attempts::integer[], reasons, retries) with ordinality
      as u(scope, key, attempt, reason, retry, i)
    order by u.key, u.scope
  ), failed as (
    update onceward.task t set
      state = case when u.retry = 'unknown' then 'unknown'
        when u.retry = 'never' or t.tries >= t.max_tries then 'dead' else 'waiting' end,
      due_at = case
        when u.retry in ('unknown', 'never') or t.tries >= t.max_tries then null
        when u.retry is not null then onceward.now() + u.retry::interval
        else onceward.now() + least(interval '2 seconds' * power(2, least(t.tries, 20) - 1), interval '4 hours')
          * (0.5 + random() / 2)
      end,
      finished_at = case when u.retry in ('unknown', 'never') or t.tries >= t.max_tries then onceward.now() end,
      reason = u.reason
    from item u
    where t.scope = u.scope and t.key = u.key and t.attempt = u.attempt and t.state = 'running'
    returning u.i, t.scope, t.key, t.attempt, t.state, t.serial, t.reason
  ), logged as (
    insert into onceward.log (scope, key, logged_at, what, attempt, detail)
    select f.scope, f.key, onceward.now(), case f.state when 'waiting' then 'failed' else f.state end, f.attempt, f.reason
    from failed f
  )
  select coalesce(jsonb_object_agg(f.i, f.state), '{}'),
      array_agg(f.scope) filter (where f.serial is not null),
      array_agg(f.serial) filter (where f.serial is not null)
    into states, in_groups, groups
  from failed f;
  if groups is not null then
    perform onceward.release_groups(in_groups, groups);
  end if;
  return (select coalesce(jsonb_agg(coalesce(states ->> i::text,
      case when onceward.is_done_by(scopes[i], keys[i], attempts[i]) then 'done' else 'lost' end) order by i), '[]')
    from generate_series(1, cardinality(keys)) as i);
end
$fn$;

create function onceward.fail(scope text, key text, attempt text, reason text, retry text default null) returns jsonb
  language sql volatile
  as $fn$ select onceward.fail_many(array[scope], array[key], array[attempt], array[reason], array[retry]) -> 0 $fn$;

-- Is a signal with this fingerprint an answer to a step that waits with this value? It is where the step
-- wants none, or just this one.
create function onceward.answers(fingerprint text, waiting text) returns boolean
  language sql immutable
  as $fn$
    select coalesce(fingerprint = (waiting::jsonb ->> 'fingerprint'), waiting::jsonb ->> 'fingerprint' is null)
  $fn$;

-- defer: not a failure; the task sleeps, waits for a signal, or is handed back by a worker that
-- stops. It does not use up a try. "waiting" | "lost"
-- delay: an interval, or 'infinity' where only a signal shall wake it. until: a point in time instead.
-- signal: wake at once if this signal, or one that another of its waiting steps waits for, has come
-- already (it may have come while we decided to wait).
create function onceward.defer(
  scope text, key text, attempt text, delay text default '0', until text default null, signal text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  held onceward.task;
  told boolean := false;
begin
  -- The row first: the next statement then sees a signal that was committed while we waited for the row.
  select * into held from onceward.task t
  where t.scope = defer.scope and t.key = defer.key and t.attempt = defer.attempt::integer and t.state = 'running'
  for no key update;
  if not found then
    return '"lost"';
  end if;
  if defer.signal is not null then
    told := exists (
      select from onceward.signal s
      left join onceward.step w on w.scope = s.scope and w.key = s.key and w.generation = s.generation
        and w.name = s.name and w.state = 'waiting'
      where s.scope = defer.scope and s.key = defer.key and s.generation = held.generation
        and (s.name = defer.signal or w.name is not null)
        and onceward.answers(s.fingerprint, w.value));
  end if;
  update onceward.task t set
    state = 'waiting',
    tries = greatest(t.tries - 1, 0),
    due_at = case
      when told then onceward.now()
      when until is not null then until::timestamptz
      when delay = 'infinity' then 'infinity'::timestamptz
      else onceward.now() + delay::interval
    end
  where t.scope = defer.scope and t.key = defer.key;
  if held.serial is not null then
    perform onceward.release(held.scope, held.serial);
  end if;
  return '"waiting"';
end
$fn$;

-- cancel: what has not finished shall not run any more. A run that is under way is fenced off.
--   {"outcome": "cancelled" | "missing" | the state it was found in}
create function onceward.cancel(scope text, key text, reason text default 'cancelled', actor text default null)
  returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  t onceward.task;
begin
  update onceward.task k set state = 'cancelled', due_at = null, finished_at = onceward.now(),
    attempt = k.attempt + 1, behind = null, reason = coalesce(nullif(cancel.reason, ''), 'cancelled')
  where k.scope = cancel.scope and k.key = cancel.key and k.state in ('waiting', 'running')
  returning * into t;
  if found then
    insert into onceward.log (scope, key, logged_at, what, attempt, actor, detail)
    values (t.scope, t.key, onceward.now(), 'cancelled', t.attempt, nullif(cancel.actor, ''), t.reason);
    perform onceward.account(cancel.actor, 'cancelled', t.scope, t.key, t.reason);
    if t.serial is not null then
      perform onceward.release(t.scope, t.serial);
    end if;
    return '{"outcome": "cancelled"}';
  end if;
  return coalesce((select jsonb_build_object('outcome', k.state) from onceward.task k
    where k.scope = cancel.scope and k.key = cancel.key), '{"outcome": "missing"}');
end
$fn$;
