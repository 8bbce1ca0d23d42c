-- Steps: the kept parts of a task, and the signals it can wait for.

-- step_save: ["saved" | "kept" | "lost", …]. States: 'started' (before a call whose outcome may stay unknown),
-- 'done', 'failed', 'waiting' (for a signal). A step that is done stays as it is: "kept". What else this transaction
-- wrote for the step was then written before, by one whose answer was lost, and must not be committed once more.
-- The task's row is held against takers (for key share) until the commit: a claim cannot slip in
-- between the look at the attempt and the write.
create function onceward.step_save_many(
  scopes text[], keys text[], attempts text[], names text[], states text[], "values" text[] default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  mine bigint[];
  saved text[];
begin
  with item as (
    select u.* from unnest(scopes, keys, attempts::integer[], names, states, "values") with ordinality
      as u(scope, key, attempt, name, state, value, i)
    order by u.key, u.scope, u.name
  ), held as materialized (
    select u.*, t.generation from item u
    join onceward.task t on t.scope = u.scope and t.key = u.key and t.attempt = u.attempt and t.state = 'running'
    for key share of t
  ), written as (
    insert into onceward.step as s (scope, key, generation, name, state, attempt, started_at, finished_at, value)
    select h.scope, h.key, h.generation, h.name, h.state, h.attempt, w.at,
      case when h.state in ('done', 'failed') then w.at end, h.value
    from held h cross join lateral (select onceward.now() as at offset 0) w
    on conflict (scope, key, generation, name) do update set
      state = excluded.state, attempt = excluded.attempt, value = excluded.value, finished_at = excluded.finished_at
      where s.state <> 'done'
    returning row(s.scope, s.key, s.name)::text as id
  )
  select (select array_agg(h.i) from held h), (select array_agg(w.id) from written w) into mine, saved;
  return (select coalesce(jsonb_agg(case when i <> all (coalesce(mine, '{}')) then 'lost'
      when row(scopes[i], keys[i], names[i])::text = any (saved) then 'saved' else 'kept' end order by i), '[]')
    from generate_series(1, cardinality(keys)) as i);
end
$fn$;

create function onceward.step_save(
  scope text, key text, attempt text, name text, state text default 'done', value text default null
) returns jsonb
  language sql volatile
  as $fn$
    select onceward.step_save_many(array[scope], array[key], array[attempt], array[name], array[state], array[value]) -> 0
  $fn$;

-- The same as the last word of a transaction: raises where nothing may be committed, since the claim is lost (OW001) or
-- the step was committed before (OW002).
create procedure onceward.step_save_last(
  scope text, key text, attempt text, name text, state text default 'done', value text default null
)
  language plpgsql
  as $fn$
declare
  answer text := onceward.step_save_many(array[scope], array[key], array[attempt], array[name], array[state], array[value]) ->> 0;
begin
  if answer is distinct from 'saved' then
    raise exception using errcode = case answer when 'kept' then 'OW002' else 'OW001' end, message = 'onceward: ' || answer;
  end if;
end
$fn$;

-- Whether a value can be read back: JSON, or nothing.
create function onceward.is_json(value text) returns boolean
  language plpgsql immutable
  as $fn$
begin
  perform value::json;
  return true;
exception when invalid_text_representation then
  return false;
end
$fn$;

-- step_resolve: a person says what became of a step whose outcome is unknown: 'done' (with its value)
-- or 'not done' (it runs again). Works while the task is parked; replay it afterwards. The value is JSON.
--   {"outcome": "resolved" | "missing"}
create function onceward.step_resolve(
  scope text, key text, name text, decision text, value text default null, actor text default null,
  reason text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
begin
  if not onceward.is_json(value) then
    return '{"outcome": "refused", "code": "value_invalid"}';
  elsif decision = 'done' then
    update onceward.step s set state = 'done', value = step_resolve.value, finished_at = onceward.now()
    from onceward.task t
    where t.scope = step_resolve.scope and t.key = step_resolve.key and t.state = 'unknown'
      and s.scope = t.scope and s.key = t.key and s.generation = t.generation and s.name = step_resolve.name
      and s.state = 'started';
  elsif decision = 'not done' then
    delete from onceward.step s using onceward.task t
    where t.scope = step_resolve.scope and t.key = step_resolve.key and t.state = 'unknown'
      and s.scope = t.scope and s.key = t.key and s.generation = t.generation and s.name = step_resolve.name
      and s.state = 'started';
  else
    return '{"outcome": "refused", "code": "value_invalid"}';
  end if;
  if not found then
    return '{"outcome": "missing"}';
  end if;
  insert into onceward.log (scope, key, logged_at, what, actor, detail)
  values (step_resolve.scope, step_resolve.key, onceward.now(), 'resolved', nullif(step_resolve.actor, ''),
    'step ' || step_resolve.name || ': ' || decision);
  perform onceward.account(step_resolve.actor, 'resolved', step_resolve.scope, step_resolve.key, step_resolve.reason,
    'step ' || step_resolve.name || ': ' || decision);
  return '{"outcome": "resolved"}';
end
$fn$;

-- signal: tell a task something that it waits for, or will wait for. The first word counts. The value is JSON.
-- Where the waiting step carries a fingerprint of what is to be approved, the signal must carry the same;
-- one that came before, for something else, makes way.
--   {"outcome": "sent" | "duplicate" | "missing"}
--   {"outcome": "conflict", "expected": fingerprint}   it waits for the approval of something else
--   {"outcome": "late"}                                it has finished, or waits no more
create function onceward.signal(
  scope text, key text, name text, value text default null, fingerprint text default null, actor text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  t onceward.task;
  step onceward.step;
  waiting text;
begin
  if not onceward.is_json(value) then
    return '{"outcome": "refused", "code": "value_invalid"}';
  end if;
  -- The lock makes a deferring task and this signal see each other, whoever comes first; also an attempt that looks for a
  -- last time before it keeps that the time is over, and which has only saved a step (for key share).
  select * into t from onceward.task k where k.scope = signal.scope and k.key = signal.key for update;
  if not found then
    return '{"outcome": "missing"}';
  end if;
  select * into step from onceward.step s
  where s.scope = t.scope and s.key = t.key and s.generation = t.generation and s.name = signal.name;
  if step.state = 'waiting' then
    waiting := step.value;
    if not onceward.answers(signal.fingerprint, waiting) then
      return jsonb_build_object('outcome', 'conflict', 'expected', waiting::jsonb -> 'fingerprint');
    end if;
  elsif (step.state = 'done' or t.state in ('done', 'cancelled')) and not exists (select from onceward.signal s
      where s.scope = t.scope and s.key = t.key and s.generation = t.generation and s.name = signal.name) then
    return '{"outcome": "late"}';
  end if;
  insert into onceward.signal as s (scope, key, generation, name, value, fingerprint, actor, sent_at)
  values (t.scope, t.key, t.generation, signal.name, signal.value, signal.fingerprint, signal.actor, onceward.now())
  on conflict on constraint signal_pkey do update set value = excluded.value, fingerprint = excluded.fingerprint,
    actor = excluded.actor, sent_at = excluded.sent_at
    where not onceward.answers(s.fingerprint, waiting);
  if not found then
    return '{"outcome": "duplicate"}';
  end if;
  insert into onceward.log (scope, key, logged_at, what, actor, detail)
  values (t.scope, t.key, onceward.now(), 'signal', signal.actor, signal.name);
  -- Programs signal too; a person says who he is.
  perform onceward.account(coalesce(signal.actor, ''), 'signal', t.scope, t.key, null, signal.name);
  if step.state = 'waiting' then
    update onceward.task k set due_at = onceward.now()
    where k.scope = t.scope and k.key = t.key and k.state = 'waiting' and k.behind is null;
  end if;
  return '{"outcome": "sent"}';
end
$fn$;

-- signals: what has been told to a task so far.
create function onceward.signals(scope text, key text) returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_object_agg(s.name, jsonb_build_object('value', s.value, 'actor', s.actor,
      'fingerprint', s.fingerprint, 'sent_at', s.sent_at)), '{}')
    from onceward.signal s
    join onceward.task t on t.scope = s.scope and t.key = s.key and t.generation = s.generation
    where s.scope = signals.scope and s.key = signals.key
  $fn$;
