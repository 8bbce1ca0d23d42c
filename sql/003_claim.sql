-- claim: the right to run a task now, until the lease ends. One compare-and-set raises the attempt.

create function onceward.steps(scope text, key text) returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'state', s.state, 'attempt', s.attempt,
      'value', s.value, 'started_at', s.started_at) order by s.started_at, s.name), '[]')
    from onceward.step s join onceward.task t on t.scope = s.scope and t.key = s.key and t.generation = s.generation
    where s.scope = steps.scope and s.key = steps.key
  $fn$;

-- Claims tasks of one scope whose rows the caller has locked and found due; `lapsed` are those among
-- them whose lease ran out. What has used up its tries is dead instead: each ended without an answer.
create function onceward.take(in_scope text, in_keys text[], lapsed text[], lease interval, worker text)
  returns onceward.task[]
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  at timestamptz := onceward.now();
  tasks onceward.task[];
begin
  if lapsed is not null then
    insert into onceward.log (scope, key, logged_at, what, attempt, detail)
    select t.scope, t.key, at, 'lapsed', t.attempt, 'the lease of ' || coalesce(t.held_by, 'its worker') || ' ran out'
    from (select in_scope as scope, k.key from unnest(lapsed) as k(key) offset 0) k
    join onceward.task t on t.scope = k.scope and t.key = k.key;
  end if;

  with taken as (
    update onceward.task t set
      state = case when t.tries < t.max_tries then 'running' else 'dead' end,
      attempt = t.attempt + 1,
      tries = least(t.tries + 1, t.max_tries),
      due_at = case when t.tries < t.max_tries then at + lease end,
      started_at = at,
      finished_at = case when t.tries < t.max_tries then null else at end,
      held_by = worker,
      behind = null,
      reason = case when t.tries < t.max_tries then t.reason
        else 'gave up: ' || t.tries || ' attempts ended without an answer'
          || coalesce('; the last known failure: ' || t.reason, '') end
    -- One probe a key. With `scope = in_scope`, or `key = any (in_keys)`, a planner that knows nothing of
    -- the table yet walks over the whole scope, finished tasks included.
    from (select in_scope as scope, k.key from unnest(in_keys) as k(key) offset 0) k
    where t.scope = k.scope and t.key = k.key
    returning t as task
  ), dead as (
    insert into onceward.log (scope, key, logged_at, what, attempt, detail)
    select (taken.task).scope, (taken.task).key, at, 'dead', (taken.task).attempt, (taken.task).reason
    from taken where (taken.task).state = 'dead'
  )
  select array_agg(taken.task order by (taken.task).created_at, (taken.task).key) into tasks
  from taken where (taken.task).state = 'running';
  return coalesce(tasks, '{}');
end
$fn$;

-- A claimed task as its runner needs it. Steps come along only where an earlier attempt can have left some.
-- `after` and `next_in_ms` are those of claim_due, in a last row without a task.
create type onceward.claimed as (
  scope text, key text, type text, attempt integer, generation integer, tries smallint, max_tries smallint,
  serial text, created_at timestamptz, claimed_at text, body text, bytes text, steps jsonb,
  after text, next_in_ms integer
);

create function onceward.with_payload(tasks onceward.task[]) returns setof onceward.claimed
  language sql stable
  as $fn$
    select t.scope, t.key, t.type, t.attempt, t.generation, t.tries, t.max_tries, t.serial, t.created_at,
      to_json(t.started_at) #>> '{}', p.body, p.bytes,
      case when t.attempt > 1 then onceward.steps(t.scope, t.key) end, null::text, null::integer
    from unnest(tasks) t
    left join lateral (
      -- A byte order mark in front would not arrive everywhere: PGlite takes it off every text.
      select p.body, encode(case when ascii(substr(p.body, 1, 1)) = 65279 then convert_to(p.body, 'UTF8') else p.bytes end,
        'base64') as bytes
      from onceward.payload p where p.scope = t.scope and p.key = t.key offset 0
    ) p on true
  $fn$;

create function onceward.claimed_json(c onceward.claimed) returns json
  language sql stable
  as $fn$
    select json_build_object('scope', c.scope, 'key', c.key, 'type', c.type, 'attempt', c.attempt,
      'generation', c.generation, 'tries', c.tries, 'max_tries', c.max_tries, 'serial', c.serial,
      'created_at', c.created_at, 'claimed_at', c.claimed_at, 'body', c.body, 'bytes', c.bytes, 'steps', c.steps)
  $fn$;

-- A bigint, as the server's own function takes it, here and wherever it wants a type: else one of the same name for
-- integers, in another schema of the search_path, would fit better and run with the rights of whoever claims.
create function onceward.group_lock(scope text, serial text) returns bigint
  language sql immutable
  as $fn$ select hashtextextended(scope || chr(31) || coalesce(serial, ''), 8241::bigint) $fn$;

-- Running tasks whose lease has ended give their place away: they are open again, and who still believes to hold
-- one finds it lost, since coming back would make one too many. Of one group, or all of a lane that count
-- against its limit. Those that somebody is changing this very moment go on counting as running.
create function onceward.give_away(in_lane text, in_serial text) returns void
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
begin
  with lapsed as materialized (
    select r.scope, r.key from onceward.task r
    where r.scope = in_lane and r.serial = in_serial and r.state = 'running' and r.due_at <= onceward.now()
    for no key update skip locked
  ), lapsed_in_lane as materialized (
    select r.scope, r.key from onceward.task r
    where in_serial is null and r.slots is not null and r.state = 'running' and r.due_at <= onceward.now()
      and r.scope >= in_lane and r.scope < in_lane || '0' and (r.scope = in_lane or r.scope > in_lane || '/')
    for no key update skip locked
  ), opened as (
    update onceward.task w set state = 'waiting'
    from (select * from lapsed union all select * from lapsed_in_lane offset 0) l
    where w.scope = l.scope and w.key = l.key
    returning w.scope, w.key, w.attempt, w.held_by
  )
  insert into onceward.log (scope, key, logged_at, what, attempt, detail)
  select o.scope, o.key, onceward.now(), 'lapsed', o.attempt,
    'the lease of ' || coalesce(o.held_by, 'its worker') || ' ran out, and its place was given away'
  from opened o;
end
$fn$;

-- May this task of a group run now? If not, it steps aside until its turn, so that a long line
-- behind one key costs the others nothing. Its turn comes through release(). Also a group whose first was deleted by
-- hand recovers by itself: the next in line looks after a minute. The others do so after about an hour, each at a
-- time of its own, since release() makes each the next in line before: a line that comes back as one holds up the
-- others (30,000 did for 8 seconds of every minute).
-- The caller has locked the task's row. The group is locked until commit; who does not get it leaves
-- the task as it is, since somebody is claiming or finishing in that group this very moment.
--   'in' | 'aside' | 'busy'
create function onceward.admit(t onceward.task) returns text
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  ahead text;
  in_line text; -- what the first of a strict group waits for, where it does
  before integer;
begin
  if not pg_try_advisory_xact_lock(onceward.group_lock(t.scope, t.serial)) then
    return 'busy';
  end if;
  -- From here on a new snapshot, which sees what the former holder of the lock committed.
  if t.slots is null then
    select f.key, f.behind into ahead, in_line from onceward.task f
    where f.scope = t.scope and f.serial = t.serial and f.due_at is not null
    order by f.created_at, f.key limit 1;
  end if;
  if t.slots is not null or ahead = t.key then
    for look in 1..2 loop
      -- Also of a strict group: an older one can turn up while a younger one runs, replayed, or recorded in a
      -- transaction that took long.
      select min(r.key) into ahead from onceward.task r
      where r.scope = t.scope and r.serial = t.serial and r.state = 'running' and r.key <> t.key
        and (t.slots is null or r.slots is not null)
      having count(*) >= coalesce(t.slots, 1);
      if ahead is null then
        return 'in';
      end if;
      exit when look = 2;
      perform onceward.give_away(t.scope, t.serial);
    end loop;
  end if;
  -- The first of all waits, and nobody runs who will let it in: who ran was deleted by hand, or it was held by
  -- somebody when its turn came.
  if in_line is not null and ahead <> t.key then
    update onceward.task w set behind = null, due_at = onceward.now()
    from (select f.scope, f.key from onceward.task f where f.scope = t.scope and f.key = ahead
      for no key update skip locked) f
    where w.scope = f.scope and w.key = f.key and not exists (select from onceward.task r
      where r.scope = t.scope and r.serial = t.serial and r.state = 'running');
  end if;
  select count(*) into before from (
    select from onceward.task f
    where f.scope = t.scope and f.serial = t.serial and f.due_at is not null
      and (f.created_at, f.key) < (t.created_at, t.key)
    order by f.created_at, f.key limit coalesce(t.slots, 1) + 1
  ) f;
  update onceward.task w set state = 'waiting', behind = ahead, due_at = onceward.now() + case
    when before <= coalesce(t.slots, 1) then interval '1 minute' else interval '1 hour' * (0.5::float8 + random()) end
  where w.scope = t.scope and w.key = t.key;
  return 'aside';
end
$fn$;

-- A task of this group has finished or waits again: the next ones may run, and the one after them looks within a
-- minute. Waits for the group's lock, so that a claim which is just stepping aside is either seen here or sees that
-- the way is free. A row that somebody holds is passed by: whoever cancels it waits for this very lock, and then
-- releases the next.
-- Rows come before groups: who cancels two of one group in one transaction, call by call, holds the group while he
-- waits for the second row, and can deadlock with whoever is finishing that one. Postgres then ends one of both.
create function onceward.release(in_scope text, in_serial text) returns void
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  room integer; -- how many may start; null: one after another
begin
  perform pg_advisory_xact_lock(onceward.group_lock(in_scope, in_serial));
  select n.slots into room from onceward.task n
  where n.scope = in_scope and n.serial = in_serial and n.due_at is not null and n.behind is not null
  order by n.created_at, n.key limit 1;
  if room is not null then
    select room - count(*) into room from onceward.task r
    where r.scope = in_scope and r.serial = in_serial and r.state = 'running' and r.slots is not null
      and r.due_at > onceward.now();
  end if;
  room := greatest(coalesce(room, 1), 0);
  update onceward.task w set behind = case when next.place > room then next.behind end,
    due_at = onceward.now() + case when next.place > room then interval '1 minute' else '0' end
  from (
    select l.*, row_number() over (order by l.created_at, l.key) as place from (
      select n.scope, n.key, n.behind, n.created_at, n.due_at from onceward.task n
      where n.scope = in_scope and n.serial = in_serial and n.due_at is not null
        and (n.slots is null or n.behind is not null)
      order by n.created_at, n.key limit room + 1
      for no key update skip locked
    ) l
  ) next
  where w.scope = next.scope and w.key = next.key and next.behind is not null
    and (next.place <= room or next.due_at > onceward.now() + interval '1 minute');
end
$fn$;

-- claim: one task by name.
--   {"outcome": "claimed", "attempt": n, "task": …} | {"outcome": "missing"}
--   {"outcome": "running" | "waiting" | "done" | …, "state": s, "due_in_ms": n}   not now
-- early: a waiting task may also be claimed before it is due (the sender itself tries again).
create function onceward.claim(
  scope text, key text, lease text default '60 seconds', worker text default null, early text default 'false'
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  t onceward.task;
  taken onceward.task[];
begin
  -- Waits for a row that somebody is changing right now, then looks at the clock.
  select * into t from onceward.task k where k.scope = claim.scope and k.key = claim.key for update;
  if not found then
    return '{"outcome": "missing"}';
  end if;
  if t.due_at <= onceward.now() or (early::boolean and t.state = 'waiting' and t.behind is null) then
    if t.serial is null or onceward.admit(t) = 'in' then
      taken := onceward.take(t.scope, array[t.key], case when t.state = 'running' then array[t.key] end,
        lease::interval, worker);
      if cardinality(taken) = 1 then
        return (select jsonb_build_object('outcome', 'claimed', 'attempt', c.attempt, 'task', onceward.claimed_json(c))
          from onceward.with_payload(taken) as c);
      end if;
      if t.serial is not null then
        perform onceward.release(t.scope, t.serial); -- It died instead.
      end if;
    end if;
    select * into t from onceward.task k where k.scope = claim.scope and k.key = claim.key;
  end if;
  return jsonb_strip_nulls(jsonb_build_object('outcome', t.state, 'state', t.state, 'reason', t.reason,
    'due_in_ms', case when t.due_at < 'infinity' then
      greatest(0, ceil(extract(epoch from t.due_at - onceward.now()) * 1000.0)) end));
end
$fn$;

-- claim_due: up to `max` tasks of these lanes that are due, first by priority, then by due time
-- within a scope, and in fair shares between scopes. A lane is a scope and everything below it
-- ('stripe' and 'stripe/…').
--
-- It walks the index task_due from scope to scope by skipping, never over the backlog: two probes a
-- scope and one a priority. `after` is where the last call stopped, so that with more scopes than
-- one call visits each gets its turn.
-- limits: null, or {"lane": {"max": n, "running": n, "rate": n, "per": interval}}: at most n in this
-- call; at most n running, or started per interval, across all workers.
--
-- Rows, one a task, and a last one with neither scope nor key: `after`, and in how many ms the next of these lanes is
-- due, or null. Rows, since each JSON on the way would copy every payload, escape it and parse it again: 100 µs
-- of the server a task instead of 30.
create function onceward.claim_due_rows(
  lanes text[], max text default '10', lease text default '60 seconds', worker text default null,
  after text default null, limits text default null
) returns setof onceward.claimed
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
  as $fn$
declare
  scopes_a_call constant integer := 200; -- bounds one call's time (about 20 µs a scope without work)
  at timestamptz := onceward.now();
  want integer := claim_due_rows.max::integer;
  quota integer;
  found_scopes text[] := '{}';
  found_lanes text[] := '{}';
  lane text collate "C"; -- compared as the index orders scopes, whatever the database's own order is
  s text collate "C";
  got integer;
  allowed integer;
  taken jsonb := '{}'; -- in this call, by lane
  tasks onceward.task[] := '{}';
  batch onceward.task[];
  more boolean;
  more_due boolean := false;
  next_due timestamptz;
  next_of timestamptz;
  stopped text;
  last onceward.claimed;
begin
  -- 1. Which scopes have unfinished tasks, from `after` on.
  <<walk>>
  -- With the '/' as lanes end in the index: 'stripe-eu' stands before 'stripe/…'.
  for lane in select l.lane from unnest(lanes) as l(lane) order by (l.lane || '/') collate "C" loop
    s := null;
    if after = lane or starts_with(after, lane || '/') then
      s := after;
    elsif after || '/' > lane || '/' then
      continue;
    end if;
    loop
      if s is null then
        select lane into s where exists
          (select from onceward.task t where t.scope = lane and t.due_at is not null);
        if s is null then
          select t.scope into s from onceward.task t
          where t.due_at is not null and t.scope > lane || '/' and t.scope < lane || '0'
          order by t.scope limit 1;
        end if;
      else
        select t.scope into s from onceward.task t
        where t.due_at is not null and t.scope > greatest(s, lane || '/') and t.scope < lane || '0'
        order by t.scope limit 1;
      end if;
      exit when s is null;
      found_scopes := found_scopes || s;
      found_lanes := found_lanes || lane;
      if cardinality(found_scopes) >= scopes_a_call then
        stopped := s;
        exit walk;
      end if;
    end loop;
  end loop;

  -- 2. Equal shares first; then what is left to whoever still has work.
  quota := greatest(1, want / greatest(1, cardinality(found_scopes)));
  for round in 1..2 loop
    for i in 1..cardinality(found_scopes) loop
      exit when want <= 0;
      allowed := onceward.allowance(found_lanes[i], limits, least(want, quota),
        coalesce((taken ->> found_lanes[i])::integer, 0));
      if allowed > 0 then
        select c.tasks, c.more into batch, more
        from onceward.claim_scope(found_scopes[i], allowed, lease::interval, worker, at) as c;
        got := cardinality(batch);
        more_due := more_due or more;
        if got > 0 then
          tasks := tasks || batch;
          want := want - got;
          if limits is not null then
            taken := taken || jsonb_build_object(found_lanes[i], coalesce((taken ->> found_lanes[i])::integer, 0) + got);
            if limits::jsonb -> found_lanes[i] ? 'rate' then
              perform onceward.spend(found_lanes[i], limits, got);
            end if;
          end if;
        end if;
      end if;
      if round = 1 and want <= 0 and i < cardinality(found_scopes) then
        stopped := found_scopes[i]; -- also where the walk stopped later: those between have had nothing yet
      end if;
    end loop;
    exit when want <= 0 or cardinality(found_scopes) = 1;
    quota := want;
  end loop;

  -- 3. Idle: when to look again.
  if more_due then
    next_due := at;
  elsif want > 0 then
    for i in 1..cardinality(found_scopes) loop
      next_of := onceward.next_due(found_scopes[i], at);
      next_due := least(next_due, next_of, onceward.next_turn(found_lanes[i], limits, at));
    end loop;
  end if;
  return query select c.* from onceward.with_payload(tasks) as c;
  last.after := stopped;
  last.next_in_ms := case when next_due is not null then
    least(ceil(greatest(0, extract(epoch from next_due - onceward.now())) * 1000.0), 2147483647) end;
  return next last;
end
$fn$;

-- The same for whoever takes one JSON value more easily than rows.
-- {"tasks": […], "after": scope or null, "next_in_ms": until the next of these lanes is due, or null}
create function onceward.claim_due(
  lanes text[], max text default '10', lease text default '60 seconds', worker text default null,
  after text default null, limits text default null
) returns json
  language sql volatile
  as $fn$
    select json_build_object(
      'tasks', coalesce(json_agg(onceward.claimed_json(c)) filter (where c.key is not null), '[]'),
      'after', max(c.after), 'next_in_ms', max(c.next_in_ms))
    from onceward.claim_due_rows(lanes, claim_due.max, lease, worker, claim_due.after, limits) as c
  $fn$;

-- The due tasks of one scope, highest priority first, at most n.
-- `more`: there may be more that are due, behind those that stepped aside.
create function onceward.claim_scope(
  in_scope text, n integer, lease interval, worker text, at timestamptz,
  out tasks onceward.task[], out more boolean
)
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
  as $fn$
declare
  p smallint := 32767;
  batch onceward.task[];
  looked integer;
  plain text[];
  lapsed text[];
  grouped onceward.task[];
  t onceward.task;
  verdict text;
  busy text[] := '{}'; -- groups that somebody works on, maybe for as long as his transaction stays open
  moved boolean;
  asked integer;
  passes integer := 0;
begin
  tasks := '{}';
  more := false;
  loop
    if passes = 0 then
      select k.priority into p from onceward.task k
      where k.scope = in_scope and k.due_at is not null and k.priority <= p
      order by k.priority desc limit 1;
    end if;
    exit when p is null or n <= 0;
    asked := n;
    moved := false;
    select count(*), array_agg(k.key) filter (where k.serial is null),
        array_agg(k.key) filter (where k.serial is null and k.state = 'running'),
        array_agg(row(k.*)::onceward.task) filter (where k.serial is not null)
      into looked, plain, lapsed, grouped
    from (
      select * from onceward.task d
      where d.scope = in_scope and d.priority = p and d.due_at is not null and d.due_at <= at
        and (d.serial is null or d.serial <> all (busy))
      order by d.due_at limit n for update skip locked
    ) k;
    if plain is not null then
      batch := onceward.take(in_scope, plain, lapsed, lease, worker);
      tasks := tasks || batch;
      n := n - cardinality(batch);
      moved := true;
    end if;
    if grouped is not null then
      foreach t in array grouped loop
        continue when t.serial = any (busy);
        verdict := onceward.admit(t);
        if verdict = 'busy' then
          busy := busy || t.serial;
          continue;
        end if;
        moved := true;
        if verdict = 'in' then
          batch := onceward.take(in_scope, array[t.key], case when t.state = 'running' then array[t.key] end,
            lease, worker);
          tasks := tasks || batch;
          n := n - cardinality(batch);
          if cardinality(batch) = 0 then
            perform onceward.release(in_scope, t.serial); -- It died instead.
          end if;
        end if;
      end loop;
    end if;
    exit when n <= 0;
    passes := passes + 1;
    -- As many as asked for, of which some stepped aside, died or belong to busy groups: there may be more behind them.
    -- Look again, within reason. Where all of them were busy, to come back at once would find the same.
    if looked = asked then
      continue when passes < 20;
      more := more or moved;
    end if;
    passes := 0;
    exit when p = -32768;
    p := p - 1;
  end loop;
end
$fn$;

create function onceward.next_due(in_scope text, at timestamptz) returns timestamptz
  language plpgsql stable set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
  as $fn$
declare
  p smallint := 32767;
  one timestamptz;
  soonest timestamptz;
begin
  loop
    select k.priority into p from onceward.task k
    where k.scope = in_scope and k.due_at is not null and k.priority <= p
    order by k.priority desc limit 1;
    exit when p is null;
    select k.due_at into one from onceward.task k
    where k.scope = in_scope and k.priority = p and k.due_at is not null and k.due_at > at
      and k.due_at < 'infinity' -- that one waits for a signal
    order by k.due_at limit 1;
    soonest := least(soonest, one);
    exit when p = -32768;
    p := p - 1;
  end loop;
  return soonest;
end
$fn$;

-- How many tasks of a lane may start now, at most n. A lane with limits across workers is claimed by one
-- at a time (until its commit); the others pass by.
create function onceward.allowance(lane text, limits text, n integer, taken integer) returns integer
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  rule jsonb := limits::jsonb -> lane;
  running integer;
  per interval;
  at timestamptz;
  next_at timestamptz;
begin
  if rule is null then
    return n;
  end if;
  n := least(n, (rule ->> 'max')::integer - taken);
  if n <= 0 or not rule ?| '{running,rate}' then
    return greatest(n, 0);
  end if;
  if not pg_try_advisory_xact_lock(onceward.group_lock(lane, null)) then
    return 0;
  end if;
  if rule ? 'running' then
    for look in 1..2 loop
      select count(*) into running from onceward.task t
      where t.state = 'running' and t.slots is not null
        and t.scope >= lane and t.scope < lane || '0' and (t.scope = lane or t.scope > lane || '/');
      exit when look = 2 or n <= (rule ->> 'running')::integer - running;
      perform onceward.give_away(lane, null);
    end loop;
    n := least(n, (rule ->> 'running')::integer - running);
  end if;
  if rule ? 'rate' then
    per := (rule ->> 'per')::interval;
    at := onceward.now();
    select greatest(max(r.next_at), at - per) into next_at from onceward.rate r where r.lane = allowance.lane;
    -- A little more, since next_at has whole microseconds: 6 a second are 6 and not 5.99.
    n := least(n, floor(extract(epoch from at - next_at) / extract(epoch from per) * (rule ->> 'rate')::numeric + 0.001));
  end if;
  return greatest(n, 0);
end
$fn$;

-- When the rate of a lane lets its next task start, if that is not yet. Whether one is due then, nobody asks: to
-- find none would be a walk over all that wait for later, and to look once for nothing is cheap.
create function onceward.next_turn(in_lane text, limits text, at timestamptz) returns timestamptz
  language sql stable
  as $fn$
    select turn.at from onceward.rate r
    cross join (select limits::jsonb -> in_lane as rule) l
    cross join lateral (select r.next_at + (l.rule ->> 'per')::interval / (l.rule ->> 'rate')::double precision as at) turn
    where r.lane = in_lane and l.rule ? 'rate' and turn.at > next_turn.at
  $fn$;

create function onceward.spend(in_lane text, limits text, n integer) returns void
  language plpgsql volatile
  as $fn$
declare
  rule jsonb := limits::jsonb -> in_lane;
  per interval := (rule ->> 'per')::interval;
  taken interval := per * (n::double precision / (rule ->> 'rate')::double precision);
begin
  insert into onceward.rate as r (lane, next_at)
  values (in_lane, onceward.now() - per + taken)
  on conflict (lane) do update set next_at = greatest(r.next_at, onceward.now() - per) + taken;
end
$fn$;

-- renew: these claims go on. Rows that somebody is changing are skipped, not waited for: a renewal
-- must never be late for all because one is being completed.
--   ["renewed" | "lost", …]
create function onceward.renew_many(scopes text[], keys text[], attempts text[], lease text default '60 seconds')
  returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
  as $fn$
declare
  answers jsonb;
begin
  with item as (
    select u.* from unnest(scopes, keys, attempts::integer[]) with ordinality as u(scope, key, attempt, i)
  ), held as materialized (
    select u.i, t.scope, t.key from item u
    join onceward.task t on t.scope = u.scope and t.key = u.key and t.attempt = u.attempt and t.state = 'running'
    for no key update of t skip locked
  ), renewed as (
    update onceward.task t set due_at = onceward.now() + lease::interval
    from held where t.scope = held.scope and t.key = held.key
  )
  select coalesce(jsonb_agg(case
      when held.i is not null then 'renewed'
      when exists (select from onceward.task t where t.scope = item.scope and t.key = item.key
        and t.attempt = item.attempt and t.state = 'running') then 'renewed'
      else 'lost' end order by item.i), '[]')
  into answers
  from item left join held on held.i = item.i;
  return answers;
end
$fn$;

create function onceward.renew(scope text, key text, attempt text, lease text default '60 seconds') returns jsonb
  language sql volatile
  as $fn$ select onceward.renew_many(array[scope], array[key], array[attempt], lease) -> 0 $fn$;
