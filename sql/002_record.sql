-- record: write down that a task exists, or say what is known of it.
-- With a lease it also claims: a new task is written as already running, so that whoever recorded
-- it can run it without a second query; a known one that may be claimed is claimed.
--
-- Answers, one an item, in order:
--   {"outcome": "recorded"}                           new; a worker will run it
--   {"outcome": "claimed", "attempt": n, "task": …}   the caller runs it now ("task" only if it was known before)
--   {"outcome": "duplicate", "state": s}              known; nothing changed, but see keep_again below
--   {"outcome": "conflict", "state": s}               known with another fingerprint; logged, not run
--   {"outcome": "refused", "code": c}                 bad input; nothing was written for this item
--
-- options: null, or a JSON object with what is rarely needed: bytes (base64, instead of body), delay,
-- due_at, priority, serial, slots, max_tries, origin ('backfill'), cause, ignored (the reason it has no handler),
-- happened_at (when the sender says that it happened: where keys from that time were pruned, nobody knows whether it ran, so it is parked
-- as unknown and answered with {"outcome": "recorded", "state": "unknown"}).

-- A scope holds no space: 'scope key' is how a cause names a task.
create function onceward.refusal(scope text, key text, body text, options jsonb) returns text
  language sql immutable
  as $fn$
    select case
      when scope is null or octet_length(scope) not between 1 and 255 or strpos(scope, ' ') > 0 then 'scope_invalid'
      when key is null or octet_length(key) not between 1 and 1024 then 'key_invalid'
      when octet_length(body) > 16777216 or octet_length(options ->> 'bytes') > 22369624 then 'payload_too_large'
      when options is null then null
      when jsonb_typeof(options) <> 'object' then 'value_invalid'
      when octet_length(options ->> 'serial') > 512 or options ->> 'serial' = '' then 'value_invalid'
      when (options ? 'priority' and options ->> 'priority' !~ '^-?\d{1,4}$')
        or (options ? 'slots' and options ->> 'slots' !~ '^[1-9]\d{0,3}$')
        or (options ? 'max_tries' and options ->> 'max_tries' !~ '^[1-9]\d{0,3}$') then 'value_invalid'
      -- Since when it is due would be no number.
      when options ->> 'due_at' ~* '^\s*-\s*inf' or options ->> 'delay' ~* '^\s*-\s*inf' then 'value_invalid'
    end
  $fn$;

-- The insert of record where some items have options: the same, with what they change. It takes half as long again,
-- which is why the usual has a statement of its own. Answers which items are new.
create function onceward.record_with_options(
  scopes text[], keys text[], bodies text[], types text[], fingerprints text[], options text[], lease text, worker text
) returns integer[]
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  at constant timestamptz := onceward.now();
  fresh integer[];
begin
  with item as materialized (
    select u.i, u.scope, u.key, u.type, u.fingerprint, u.o::jsonb as o
    from unnest(scopes, keys, types, fingerprints, options) with ordinality as u(scope, key, type, fingerprint, o, i)
  ), first as materialized (
    select distinct on (item.key, item.scope) item.*
    from item
    where onceward.refusal(item.scope, item.key, bodies[item.i], item.o) is null
    order by item.key, item.scope, item.i
  ), base as materialized (
    -- After all that are in line already: a clock can stand still between two calls (that of PGlite counts
    -- milliseconds), or be set back.
    select greatest(at, max(line.last)) as created_at
    from (select distinct f.scope, f.o ->> 'serial' as serial from first f where f.o ? 'serial') g
    cross join lateral (
      select k.created_at as last from onceward.task k
      where k.scope = g.scope and k.serial = g.serial and k.due_at is not null
      order by k.created_at desc, k.key desc limit 1
    ) line
  ), task as (
    insert into onceward.task (created_at, scope, key, type, fingerprint, state, due_at, started_at,
      finished_at, attempt, tries, max_tries, priority, serial, slots, origin, cause, held_by, reason)
    select base.created_at + f.i::float8 * interval '1 microsecond', f.scope, f.key, f.type, f.fingerprint, t.state,
      case t.state
        when 'running' then at + lease::interval
        when 'waiting' then coalesce((f.o ->> 'due_at')::timestamptz,
          at + coalesce((f.o ->> 'delay')::interval, '0'))
      end,
      case when t.state = 'running' then at end,
      case when t.state in ('ignored', 'unknown') then at end,
      case when t.state = 'running' then 1 else 0 end,
      case when t.state = 'running' then 1 else 0 end,
      coalesce((f.o ->> 'max_tries')::smallint, 30), coalesce((f.o ->> 'priority')::smallint, 0),
      f.o ->> 'serial', (f.o ->> 'slots')::smallint, f.o ->> 'origin', f.o ->> 'cause',
      case when t.state = 'running' then worker end,
      case t.state
        when 'ignored' then f.o ->> 'ignored'
        when 'unknown' then 'older than the keys that are kept: it may have taken effect before'
      end
    from first f
    cross join base
    cross join lateral (select case
      when f.o ? 'happened_at' and onceward.is_forgotten(f.scope, (f.o ->> 'happened_at')::timestamptz) then 'unknown'
      when f.o ? 'ignored' then 'ignored'
      when lease is null or f.o ?| '{serial,slots,delay,due_at}' then 'waiting'
      else 'running' end as state offset 0) t
    where not exists (select from onceward.task k where k.scope = f.scope and k.key = f.key offset 0)
    on conflict do nothing
    returning scope, key, (date_part('epoch', created_at - (select b.created_at from base b)) * 1000000::float8)::integer as i
  ), payload as (
    insert into onceward.payload (scope, key, body, bytes)
    select task.scope, task.key,
      case when options[task.i] is null or not options[task.i]::jsonb ? 'bytes'
        then coalesce(bodies[task.i], 'null') end,
      decode(options[task.i]::jsonb ->> 'bytes', 'base64')
    from task
  )
  select array_agg(task.i) into fresh from task;
  return fresh;
end
$fn$;

create function onceward.record_many(
  scopes text[], keys text[], bodies text[],
  types text[] default null, fingerprints text[] default null, options text[] default null,
  lease text default null, worker text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  at constant timestamptz := onceward.now();
  first_state constant text := case when lease is null then 'waiting' else 'running' end;
  first_due constant timestamptz := at + coalesce(lease, '0')::interval;
  first_start constant timestamptz := case when lease is not null then at end;
  first_holder constant text := case when lease is not null then worker end;
  first_attempt constant smallint := case when lease is null then 0 else 1 end;
  first_answer constant jsonb := case when lease is null then '{"outcome": "recorded"}'
    else '{"outcome": "claimed", "attempt": 1}' end;
  fresh integer[];
begin
  if cardinality(keys) = 0 then
    return '[]';
  end if;
  if options is not null then
    fresh := onceward.record_with_options(scopes, keys, bodies, types, fingerprints, options, lease, worker);
  elsif cardinality(keys) = 1 then
    -- Alone, which is how it comes unless many come at once: to set up lists and sorts for one costs more than the rest.
    insert into onceward.task (created_at, scope, key, type, fingerprint, state, due_at, started_at, attempt, tries, held_by)
    select at, scopes[1], keys[1], types[1], fingerprints[1], first_state, first_due, first_start, first_attempt,
      first_attempt, first_holder
    where onceward.refusal(scopes[1], keys[1], bodies[1], null) is null
      and not exists (select from onceward.task k where k.scope = scopes[1] and k.key = keys[1] offset 0)
    on conflict do nothing;
    if found then
      insert into onceward.payload (scope, key, body) values (scopes[1], keys[1], coalesce(bodies[1], 'null'));
      if lease is not null and onceward.now() - at > lease::interval / 4::float8 then
        perform onceward.renew_many(scopes, keys, '{1}', lease);
      end if;
      return jsonb_build_array(first_answer);
    end if;
  else
    -- Bodies are fetched where they are needed and travel through no list, sort or join on the way: that cost as much
    -- as all the rest (46 instead of 28 µs of the server an event of 3 KB, in batches of 100).
    with item as (
      -- In one order for everybody: two batches that share keys wait for each other instead of deadlocking.
      select distinct on (u.key, u.scope) u.*
      from unnest(scopes, keys, types, fingerprints) with ordinality as u(scope, key, type, fingerprint, i)
      where onceward.refusal(u.scope, u.key, bodies[u.i], null) is null
      order by u.key, u.scope, u.i
    ), task as (
      insert into onceward.task (created_at, scope, key, type, fingerprint, state, due_at, started_at, attempt, tries, held_by)
      -- A microsecond apart, in the order of the batch: that is the order of a serial group, and says below which item
      -- a new row is.
      select at + f.i::float8 * interval '1 microsecond', f.scope, f.key, f.type, f.fingerprint, first_state, first_due,
        first_start, first_attempt, first_attempt, first_holder
      from item f
      -- What is known is not even tried: an insert waits for whoever is just completing that task, and with it
      -- waited everybody in this batch. The offset keeps it one probe a key.
      where not exists (select from onceward.task k where k.scope = f.scope and k.key = f.key offset 0)
      on conflict do nothing
      returning scope, key, (date_part('epoch', created_at - at) * 1000000::float8)::integer as i
    ), payload as (
      insert into onceward.payload (scope, key, body)
      select task.scope, task.key, coalesce(bodies[task.i], 'null') from task
    )
    select array_agg(task.i) into fresh from task;
  end if;

  -- The insert waits for whoever has recorded one of these keys and not committed yet, however long that takes: the
  -- leases of the new ones count from now on, or they were claimed and free for others at once.
  if lease is not null and onceward.now() - at > lease::interval / 4::float8 then
    perform onceward.renew_many(array_agg(scopes[f.i]), array_agg(keys[f.i]), array_agg('1'::text), lease)
    from unnest(fresh) as f(i);
  end if;
  if cardinality(fresh) = cardinality(keys) and options is null then
    -- An expression, not a query, which would have to be set up and run.
    return to_jsonb(array_fill(first_answer, array[cardinality(keys)]));
  end if;
  return onceward.record_answers(scopes, keys, bodies, fingerprints, options, fresh, lease, worker);
end
$fn$;

-- The second statement of record, with a snapshot that sees what others committed meanwhile.
create function onceward.record_answers(
  scopes text[], keys text[], bodies text[], fingerprints text[], options text[],
  fresh integer[], lease text, worker text
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  answers jsonb;
  claimable bigint[];
  parked bigint[];
  place bigint;
  claim jsonb;
  claims jsonb[] := array_fill(null::jsonb, array[cardinality(keys)]);
begin
  select jsonb_agg(
      case
        when known.refused is not null then jsonb_build_object('outcome', 'refused', 'code', known.refused)
        when known.i = any (fresh) and known.task ->> 'state' = 'unknown' then '{"outcome": "recorded", "state": "unknown"}'
        when known.i = any (fresh) then known.first_answer
        -- It was there a moment ago: finished, and pruned meanwhile.
        when known.task is null then '{"outcome": "duplicate", "state": "done"}'
        when known.fingerprint <> known.task ->> 'fingerprint' then
          jsonb_build_object('outcome', 'conflict', 'state', known.task -> 'state')
        else jsonb_build_object('outcome', 'duplicate', 'state', known.task -> 'state')
      end order by known.i),
      array_agg(known.i) filter (where (known.task -> 'due')::boolean and known.refused is null
        and coalesce(known.fingerprint = known.task ->> 'fingerprint', true)),
      array_agg(known.i) filter (where known.task ->> 'state' in ('ignored', 'cancelled', 'unknown')
        and (known.i = any (fresh)) is not true and known.refused is null
        and (known.fingerprint <> known.task ->> 'fingerprint') is not true)
    into answers, claimable, parked
  from (
    select u.i, u.fingerprint, onceward.refusal(u.scope, u.key, bodies[u.i], u.o::jsonb) as refused,
      (select jsonb_build_object('state', t.state, 'fingerprint', t.fingerprint,
          'due', coalesce(t.due_at <= onceward.now(), false))
        from onceward.task t where t.scope = u.scope and t.key = u.key) as task,
      case
        when u.o::jsonb ? 'ignored' then '{"outcome": "recorded", "state": "ignored"}'::jsonb
        when lease is null or u.o::jsonb ?| '{serial,slots,delay,due_at}' then '{"outcome": "recorded"}'
        else '{"outcome": "claimed", "attempt": 1}'
      end as first_answer
    from unnest(scopes, keys, fingerprints, options) with ordinality as u(scope, key, fingerprint, o, i)
  ) known;

  insert into onceward.log (scope, key, logged_at, what, detail)
  select scopes[i.i], keys[i.i], onceward.now(), 'conflict', 'recorded again with other content; not run'
  from jsonb_array_elements(answers) with ordinality as i(answer, i)
  where i.answer ->> 'outcome' = 'conflict';
  if parked is not null then
    perform onceward.keep_again(parked, scopes, keys, bodies, options);
  end if;

  -- What was known and is due, and what was recorded just now as one of a group. Nothing else is
  -- locked: a storm of duplicates only reads. Whoever holds a row is claiming or finishing it, and what he does is his:
  -- to wait for him here could deadlock, since he may want a group that an earlier item of ours has locked.
  if lease is not null and claimable is not null then
    select coalesce(array_agg(c.i), '{}') into claimable
    from (
      select min(c.i) as i, scopes[c.i] as scope, keys[c.i] as key
      from unnest(claimable) as c(i) group by scopes[c.i], keys[c.i] order by 3, 2
    ) c
    cross join lateral (
      select from onceward.task t where t.scope = c.scope and t.key = c.key for update skip locked
    ) t;
    foreach place in array claimable loop
      claim := onceward.claim(scopes[place], keys[place], lease, worker);
      if claim ->> 'outcome' = 'claimed' then
        claims[place] := claim; -- put together below: to set one in a long answer copies it, payloads and all
      end if;
    end loop;
    select jsonb_agg(coalesce(claims[a.i], a.answer) order by a.i) into answers
    from jsonb_array_elements(answers) with ordinality as a(answer, i);
  end if;
  return answers;
end
$fn$;

-- Of these places of a batch, what is parked and was never begun and has lost its payload to prune: a later delivery
-- brings the bytes again, so that it can be replayed, and they stay as long as if it had come now. Never of what has
-- begun: its steps may be pruned as well, and it would take them a second time.
create function onceward.keep_again(places bigint[], scopes text[], keys text[], bodies text[], options text[])
  returns void
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  as $fn$
begin
  with place as materialized (
    select min(p.i) as i, scopes[p.i] as scope, keys[p.i] as key from unnest(places) as p(i)
    where bodies[p.i] is not null or options[p.i]::jsonb ? 'bytes' group by scopes[p.i], keys[p.i]
  ), bare as materialized (
    select place.i, place.scope, place.key from place
    cross join lateral (
      select from onceward.task t
      where t.scope = place.scope and t.key = place.key and t.started_at is null
        and t.state in ('ignored', 'cancelled', 'unknown')
        and not exists (select from onceward.payload p where p.scope = t.scope and p.key = t.key offset 0)
      for no key update of t skip locked
    ) t
  ), kept as (
    insert into onceward.payload (scope, key, body, bytes)
    select b.scope, b.key,
      case when options[b.i] is null or not options[b.i]::jsonb ? 'bytes' then bodies[b.i] end,
      decode(options[b.i]::jsonb ->> 'bytes', 'base64')
    from bare b
    on conflict do nothing
  ), logged as (
    insert into onceward.log (scope, key, logged_at, what, detail)
    select b.scope, b.key, onceward.now(), 'kept again', 'delivered again after its payload was pruned' from bare b
  )
  update onceward.task t set finished_at = onceward.now() from bare b where t.scope = b.scope and t.key = b.key;
end
$fn$;

create function onceward.record(
  scope text, key text, body text default null, type text default null, fingerprint text default null,
  options text default null, lease text default null, worker text default null
) returns jsonb
  language sql volatile
  as $fn$
    select onceward.record_many(array[scope], array[key], array[body], array[type], array[fingerprint],
      case when options is not null then array[options] end, lease, worker) -> 0
  $fn$;

-- The same batch for a driver that sends its arrays as they are. To plan a select, the server copies every parameter
-- into the plan, twice, payloads and all; the arguments of a call are not planned. Batches of 32 take it 5 % less
-- with payloads of 3 KB and 27 % less with 20 KB.
-- lock_wait: for so long it waits for somebody's open transaction, in ms; then it fails with 55P03. For calls that are
-- their own transaction: in another one it would hold for all that comes after it.
create procedure onceward.record_call(
  scopes text[], keys text[], bodies text[], types text[], fingerprints text[], options text[], lease text,
  worker text, lock_wait text default null, inout answer jsonb default null
)
  language plpgsql
  as $fn$
begin
  if lock_wait is not null then
    perform set_config('lock_timeout'::text, lock_wait, true);
  end if;
  answer := onceward.record_many(scopes, keys, bodies, types, fingerprints, options, lease, worker);
end
$fn$;
