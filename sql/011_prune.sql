-- prune: forget what is finished and old, one kind of thing a call.
--
--   payloads  the bytes, and what a waiting task was told. A late duplicate finds the key and stays a duplicate; of
--             what never began it brings the bytes again (see keep_again in 002_record.sql)
--   steps     results of steps, of tasks that are done or can never run again, since their payload is gone
--   keys      tasks with all that hangs on them. From then on the ledger keeps, for each scope, until when keys are
--             missing, and an unknown event from that time is parked: nobody knows whether it ran (see record)
--   log       what happened to tasks, but not to those that still want something
--   audit     what people changed by hand
--   moves     the history of machines, without the last move of each subject
--   effects   effect keys: what was forgotten here can take effect a second time
--
-- Keys and effects must outlive the sender's memory (Stripe resends for 30 days): younger than 35 days needs
-- `override`, and nothing allows less than two hours: record is told the time of events that are older than one hour alone.
--
-- A call looks at `max` rows at most and stays short; `after` of its answer is where the next one goes on, until it
-- is null. It walks along an index, so that a whole round costs one look at each row and not one a batch. Rows that
-- somebody holds are left for the next round: it waits for nobody, and nobody waits for longer than one call.
-- Of one lane it looks at `max` of that lane's, and passes by the entries of others in the index, however many they are.
--
-- lane: only of this lane; except_lanes: not of these; states: only tasks in these. Left out, states are those that
-- nobody waits for: payloads of done, ignored and cancelled tasks, keys of these and of dead ones.
-- chosen: also keys that somebody chose. An action's, and a job's that was enqueued with one, are the same task
-- for ever unless this is said.
-- dry: only count. actor: a person wants this; the call that begins a round says so in the audit.
--
--   {"pruned": n, "after": text or null} | {"outcome": "refused", "code": "value_invalid"}

-- Until when (by created_at) keys of this scope may be missing.
create table onceward.pruned (
  scope text collate "C" primary key,
  until timestamptz not null
);

-- A sender's clock may be five minutes ahead of ours, as far as signatures are accepted.
create function onceward.is_forgotten(in_scope text, happened_at timestamptz) returns boolean
  language sql stable
  as $fn$
    select exists (select from onceward.pruned p
      where p.scope = in_scope and p.until >= happened_at - interval '5 minutes')
  $fn$;

create function onceward.in_lane(scope text, lane text) returns boolean
  language sql immutable
  as $fn$ select lane is null or scope = lane or starts_with(scope, lane || '/') $fn$;

create function onceward.in_lanes(scope text, lane text, except_lanes text[]) returns boolean
  language sql immutable
  as $fn$
    select onceward.in_lane(scope, lane)
      and not exists (select from unnest(except_lanes) as x(lane) where scope = x.lane or starts_with(scope, x.lane || '/'))
  $fn$;

-- A key that nobody chose: a tick of a schedule, the time and random digits, or the hash of what a task enqueued.
create function onceward.is_passing(t onceward.task) returns boolean
  language sql stable
  as $fn$
    select case
      when t.scope ~ '^(action|run|tool)(/|$)' then false
      when t.scope !~ '^job/' then true
      when t.key ~ '^[0-9a-f]{32}$' then abs(('x' || left(t.key, 12))::bit(48)::bigint::numeric
        - extract(epoch from t.created_at) * 1000.0) < 86400000.0
      else t.key ~ '^\d{4}-\d\d-\d\dT[\d:.]+Z$'
        or (t.cause is not null and t.key ~ '^[\w-]{32}$' and t.key !~* '^[0-9a-f]{32}$')
    end
  $fn$;

-- Does the task that enqueued this one still have a run before it? Then it would enqueue this one again.
create function onceward.is_wanted(in_cause text) returns boolean
  language sql stable
  as $fn$
    select exists (select from onceward.task c
      where c.scope = split_part(in_cause, ' ', 1) and c.key = substr(in_cause, strpos(in_cause, ' ') + 1) and c.state <> 'done')
  $fn$;

create function onceward.prune(
  what text, older_than text, lane text default null, states text[] default null, except_lanes text[] default null,
  chosen text default 'false', after text default null, max text default '1000', override text default 'false',
  dry text default 'false', actor text default null, reason text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  set enable_hashjoin = off set enable_mergejoin = off
  as $fn$
declare
  horizon timestamptz := onceward.now() - older_than::interval;
  most integer := prune.max::integer;
  wet boolean := not dry::boolean;
  -- Where the last call stopped: a key and its scope, or a machine's name and its subject.
  last_first text collate "C" := coalesce(after::jsonb ->> 0, '');
  last_second text collate "C" := coalesce(after::jsonb ->> 1, '');
  seen integer;
  n integer;
  last jsonb;
begin
  if horizon is null or most < 1 or older_than::interval < '0'
    or what not in ('payloads', 'steps', 'keys', 'log', 'audit', 'moves', 'effects')
    or (what in ('keys', 'effects') and older_than::interval < case when override::boolean then '2 hours' else '35 days' end::interval)
  then
    return '{"outcome": "refused", "code": "value_invalid"}';
  end if;
  if actor is not null and after is null and wet then
    perform onceward.account(actor, 'pruned ' || what, lane, null, reason, 'older than ' || older_than);
  end if;

  if what = 'payloads' then
    with walk as materialized (
      select p.scope, p.key from onceward.payload p
      where (p.key, p.scope) > (last_first, last_second) and onceward.in_lane(p.scope, lane)
      order by p.key, p.scope limit most
    ), old as materialized (
      select t.scope, t.key from walk w join onceward.task t on t.scope = w.scope and t.key = w.key
      where t.finished_at < horizon and t.state = any (coalesce(states, '{done,ignored,cancelled}'))
        and onceward.in_lanes(t.scope, lane, except_lanes)
      for update of t skip locked
    ), told as (
      delete from onceward.signal x using old where x.scope = old.scope and x.key = old.key and wet
    ), gone as (
      delete from onceward.payload x using old where x.scope = old.scope and x.key = old.key and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.key, w.scope) order by w.key desc, w.scope desc))[1]
    into seen, n, last from walk w;

  elsif what = 'steps' then
    with walk as materialized (
      select s.scope, s.key, s.generation, s.name, s.started_at from onceward.step s
      where (s.key, s.scope, s.generation, s.name)
        > (last_first, last_second, coalesce((after::jsonb ->> 2)::integer, 0), coalesce(after::jsonb ->> 3, ''))
        and onceward.in_lane(s.scope, lane)
      order by s.key, s.scope, s.generation, s.name limit most
    ), old as materialized (
      select t.scope, t.key, w.generation, w.name
      from walk w join onceward.task t on t.scope = w.scope and t.key = w.key
      where t.finished_at < horizon and (states is null or t.state = any (states))
        and (t.state = 'done' or not exists (select from onceward.payload p where p.scope = t.scope and p.key = t.key))
        and onceward.in_lanes(t.scope, lane, except_lanes)
      for update of t skip locked
    ), gone as (
      delete from onceward.step x using old
      where x.scope = old.scope and x.key = old.key and x.generation = old.generation and x.name = old.name and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.key, w.scope, w.generation, w.name)
      order by w.key desc, w.scope desc, w.generation desc, w.name desc))[1]
    into seen, n, last from walk w;

  elsif what = 'keys' then
    with walk as materialized (
      select k.scope, k.key from onceward.task k
      where (k.key, k.scope) > (last_first, last_second) and onceward.in_lane(k.scope, lane)
      order by k.key, k.scope limit most
    ), old as materialized (
      select t.scope, t.key, t.created_at from walk w join onceward.task t on t.scope = w.scope and t.key = w.key
      where t.finished_at < horizon
        and t.state = any (coalesce(states, '{done,ignored,cancelled,dead}'))
        and onceward.in_lanes(t.scope, lane, except_lanes)
        and (chosen::boolean or onceward.is_passing(t))
        and (t.cause is null or not onceward.is_wanted(t.cause))
      for update of t skip locked
    ), a as (delete from onceward.payload x using old where x.scope = old.scope and x.key = old.key and wet),
    b as (delete from onceward.result x using old where x.scope = old.scope and x.key = old.key and wet),
    c as (delete from onceward.step x using old where x.scope = old.scope and x.key = old.key and wet),
    d as (delete from onceward.signal x using old where x.scope = old.scope and x.key = old.key and wet),
    e as (delete from onceward.log x using old where x.scope = old.scope and x.key = old.key and wet),
    g as (delete from onceward.delivery x using old where x.scope = old.scope and x.key = old.key and wet),
    -- In the same commit: who no longer sees a key sees that it may have been there.
    f as (
      insert into onceward.pruned as p (scope, until)
      select old.scope, max(old.created_at) from old where wet group by old.scope order by old.scope
      on conflict (scope) do update set until = greatest(p.until, excluded.until)
    ), gone as (
      delete from onceward.task x using old where x.scope = old.scope and x.key = old.key and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.key, w.scope) order by w.key desc, w.scope desc))[1]
    into seen, n, last from walk w;

  elsif what = 'log' then
    with walk as materialized (
      select l.ctid as at, l.logged_at, l.scope, l.key from onceward.log l
      where l.logged_at < horizon and (l.logged_at, l.ctid)
        > (coalesce((after::jsonb ->> 0)::timestamptz, '-infinity'), coalesce((after::jsonb ->> 1)::tid, '(0,0)'))
      order by l.logged_at, l.ctid limit most
    ), old as materialized (
      select l.ctid as at from walk w join onceward.log l on l.ctid = w.at
      where l.logged_at = w.logged_at and onceward.in_lanes(w.scope, lane, except_lanes)
        and not exists (select from onceward.task t where t.scope = w.scope and t.key = w.key
          and t.state in ('waiting', 'running', 'dead', 'unknown'))
      for update of l skip locked
    ), gone as (
      delete from onceward.log x using old where x.ctid = old.at and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.logged_at, w.at::text) order by w.logged_at desc, w.at desc))[1]
    into seen, n, last from walk w;

  elsif what = 'audit' then
    with walk as materialized (
      select a.ctid as at, a.changed_at, a.scope from onceward.audit a
      where a.changed_at < horizon and (a.changed_at, a.ctid)
        > (coalesce((after::jsonb ->> 0)::timestamptz, '-infinity'), coalesce((after::jsonb ->> 1)::tid, '(0,0)'))
      order by a.changed_at, a.ctid limit most
    ), old as materialized (
      select a.ctid as at from walk w join onceward.audit a on a.ctid = w.at
      where a.changed_at = w.changed_at and onceward.in_lanes(coalesce(w.scope, ''), lane, except_lanes)
      for update of a skip locked
    ), gone as (
      delete from onceward.audit x using old where x.ctid = old.at and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.changed_at, w.at::text) order by w.changed_at desc, w.at desc))[1]
    into seen, n, last from walk w;

  elsif what = 'moves' then
    with walk as materialized (
      select m.name, m.subject, m.version, m.moved_at from onceward.move m
      where (m.name, m.subject, m.version) > (last_first, last_second, coalesce((after::jsonb ->> 2)::integer, 0))
      order by m.name, m.subject, m.version limit most
    ), old as materialized (
      select w.name, w.subject, w.version from walk w
      where w.moved_at < horizon and onceward.in_lanes('machine/' || w.name, lane, except_lanes)
        and exists (select from onceward.move l where l.name = w.name and l.subject = w.subject and l.version > w.version)
    ), gone as (
      delete from onceward.move x using old
      where x.name = old.name and x.subject = old.subject and x.version = old.version and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.name, w.subject, w.version)
      order by w.name desc, w.subject desc, w.version desc))[1]
    into seen, n, last from walk w;

  else
    with walk as materialized (
      select k.scope, k.key, k.taken_at from onceward.effect k
      where (k.key, k.scope) > (last_first, last_second) and onceward.in_lane(k.scope, lane)
      order by k.key, k.scope limit most
    ), old as materialized (
      select w.scope, w.key from walk w
      where w.taken_at < horizon and onceward.in_lanes(w.scope, lane, except_lanes)
    ), gone as (
      delete from onceward.effect x using old where x.scope = old.scope and x.key = old.key and wet
    )
    select count(*), (select count(*) from old), (array_agg(jsonb_build_array(w.key, w.scope) order by w.key desc, w.scope desc))[1]
    into seen, n, last from walk w;
  end if;
  return jsonb_build_object('pruned', n, 'after', case when seen = most then last::text end);
end
$fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
