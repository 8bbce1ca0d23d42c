-- status, stuck, list, story, audit: what whoever is on call asks.
--
-- What is unfinished or parked has indexes of its own. The finished part of the task table is read only where
-- somebody asks for it: list by time, and the exact numbers of status.

-- A filter, as SQL conditions on `t`. Only what was asked for is in the text, with the values as literals, so that
-- the planner can use the partial indexes.
--   scope, lane, type ('invoice.*' is a beginning), account, key, contains (in the key), error (in the reason),
--   cause ('scope key'), since, until (when it was recorded), states: of tasks, or 'failed': it waits after a failure
--   handled: [[lane, type], …]: of ignored ones only these
create function onceward.conditions(filter jsonb) returns text
  language plpgsql stable
  as $fn$
declare
  lane text := filter ->> 'lane';
  type text := filter ->> 'type';
  states text;
begin
  select string_agg(case s.state
      when 'failed' then 't.due_at is not null and t.state = ''waiting'' and t.tries > 0 and t.reason is not null'
        || ' and t.behind is null and not exists (select from onceward.step w where w.scope = t.scope and w.key = t.key'
        || ' and w.generation = t.generation and w.state = ''waiting'')'
      when 'ignored' then 't.state = ''ignored''' || coalesce(
        ' and (split_part(t.scope, ''/'', 1), t.type) in (select h ->> 0, h ->> 1 from jsonb_array_elements('
          || quote_literal(filter -> 'handled') || '::jsonb) as h)', '')
      when 'waiting' then 't.due_at is not null and t.state = ''waiting'''
      when 'running' then 't.due_at is not null and t.state = ''running'''
      else 't.state = ' || quote_literal(s.state) end, ') or (')
    into states
  from jsonb_array_elements_text(filter -> 'states') as s(state);
  return concat_ws(' and ', 'true',
    '((' || states || '))',
    't.scope = ' || quote_literal(filter ->> 'scope'),
    case when lane is not null then
      format('(t.scope = %L or (t.scope > %L and t.scope < %L))', lane, lane || '/', lane || '0') end,
    case when type like '%*' then 'starts_with(t.type, ' || quote_literal(left(type, -1)) || ')'
      else 't.type = ' || quote_literal(type) end,
    'split_part(t.scope, ''/'', 2) = ' || quote_literal(filter ->> 'account') || ' and not starts_with(t.scope, ''job/'')',
    't.key = ' || quote_literal(filter ->> 'key'),
    'strpos(t.key, ' || quote_literal(filter ->> 'contains') || ') > 0',
    'strpos(lower(t.reason), lower(' || quote_literal(filter ->> 'error') || ')) > 0',
    't.cause = ' || quote_literal(filter ->> 'cause'),
    -- As JSON writes a time: as text of the session's own DateStyle it can read as another one.
    't.created_at >= ' || quote_literal(to_json((filter ->> 'since')::timestamptz) #>> '{}'),
    't.created_at < ' || quote_literal(to_json((filter ->> 'until')::timestamptz) #>> '{}'));
end
$fn$;

-- find: what list does, with a filter as JSON.
create function onceward.find(filter text, before text default null, max text default '100') returns jsonb
  language plpgsql stable set jit = off
  as $fn$
declare
  page jsonb := case when starts_with(before, '[') then before::jsonb else jsonb_build_array(before) end;
  answer jsonb;
begin
  execute 'select coalesce(jsonb_agg(to_jsonb(found)), ''[]'') from (
      select t.scope, t.key, t.type, t.state, t.attempt, t.tries, t.generation, t.created_at, t.due_at, t.started_at,
        t.finished_at, t.serial, t.behind, t.origin, t.cause, t.held_by, t.reason
      from onceward.task t
      where ' || onceward.conditions(filter::jsonb) || '
        and ($1 is null or t.created_at < $1 or (t.created_at = $1 and (t.scope, t.key) > ($2, $3)))
      order by t.created_at desc, t.scope, t.key limit $4
    ) found'
  into answer using (page ->> 0)::timestamptz, page ->> 1, page ->> 2, find.max::integer;
  return answer;
end
$fn$;

-- list: tasks by what one knows of them, the newest first, at most `max`. Every filter may be null. By time it
-- reads only the part of the table from then; by state of what is parked or unfinished, only those.
--   state: one, or several with commas; 'failed' are those that wait after a failure
--   contains: in the key; reason: in the reason
--   before: go on after the last one of a page: its created_at, or '["created_at", "scope", "key"]', which is exact
create function onceward.list(
  lane text default null, state text default null, type text default null, contains text default null,
  reason text default null, since text default null, until text default null, before text default null,
  max text default '100', account text default null
) returns jsonb
  language sql stable
  as $fn$
    select onceward.find(jsonb_strip_nulls(jsonb_build_object('lane', lane, 'states', string_to_array(state, ','),
      'type', type, 'contains', contains, 'error', reason, 'since', since, 'until', until, 'account', account))::text,
      before, list.max)
  $fn$;

-- whereis: the scopes that hold this key, at most 100.
create function onceward.whereis(key text) returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_agg(found.scope), '[]')
    from (select t.scope from onceward.task t where t.key = whereis.key order by t.scope limit 100) found
  $fn$;

-- A worker says hello every half minute; three times missed is gone.
create function onceward.is_attended(in_scope text) returns boolean
  language sql stable
  as $fn$
    select exists (select from onceward.worker w cross join unnest(w.lanes) as l(lane)
      where w.seen_at > onceward.now() - interval '90 seconds' and (in_scope = l.lane or starts_with(in_scope, l.lane || '/')))
  $fn$;

-- An error without what differs between two of its kind: ids, numbers, times.
create function onceward.kind_of_error(error text) returns text
  language sql immutable
  as $fn$ select left(regexp_replace(split_part(error, E'\n', 1), '\S*\d\S*', '…', 'g'), 200) $fn$;

-- status: tasks by scope and state, the oldest that is due and that runs, what failed within the last hour, and
-- which workers are there. Done ones are counted only if `exact` is asked for, since that reads the whole table;
-- else "done_about" is what the planner believes of all scopes together, or null where it has not looked yet.
create function onceward.status(exact text default 'false') returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  at timestamptz := onceward.now();
  scopes jsonb;
  waiting bigint;
  parked bigint;
  done jsonb := '{}';
begin
  if exact::boolean then
    select coalesce(jsonb_object_agg(d.scope, d.n), '{}') into done from
      (select t.scope, count(*) as n from onceward.task t where t.state = 'done' group by t.scope) d;
  end if;
  with unfinished as (
    select t.scope,
      count(*) filter (where t.state = 'waiting' and t.due_at <= at) as due,
      count(*) filter (where t.state = 'waiting' and t.due_at > at) as later,
      count(*) filter (where t.state = 'running') as running,
      min(t.due_at) filter (where t.state = 'waiting' and t.due_at <= at) as oldest_due,
      min(t.started_at) filter (where t.state = 'running') as oldest_running
    from onceward.task t where t.due_at is not null group by t.scope
  ), finished as (
    select t.scope, count(*) filter (where t.state = 'dead') as dead, count(*) filter (where t.state = 'unknown') as unknown,
      count(*) filter (where t.state = 'ignored') as ignored, count(*) filter (where t.state = 'cancelled') as cancelled
    from onceward.task t where t.state in ('dead', 'ignored', 'cancelled', 'unknown') group by t.scope
  ), every as (
    select d.scope from jsonb_object_keys(done) as d(scope) union select u.scope from unfinished u union select f.scope from finished f
  )
  select coalesce(jsonb_agg(jsonb_build_object('scope', e.scope, 'due', coalesce(u.due, 0), 'later', coalesce(u.later, 0),
        'running', coalesce(u.running, 0), 'dead', coalesce(f.dead, 0), 'unknown', coalesce(f.unknown, 0),
        'ignored', coalesce(f.ignored, 0), 'cancelled', coalesce(f.cancelled, 0),
        'done', case when exact::boolean then coalesce(done -> e.scope, '0') else 'null' end,
        'oldest_due_ms', round(extract(epoch from at - u.oldest_due) * 1000.0),
        'oldest_running_ms', round(extract(epoch from at - u.oldest_running) * 1000.0)) order by e.scope), '[]'),
      coalesce(sum(u.due + u.later + u.running), 0), coalesce(sum(f.dead + f.unknown + f.ignored + f.cancelled), 0)
    into scopes, waiting, parked
  from every e left join unfinished u on u.scope = e.scope left join finished f on f.scope = e.scope;

  return jsonb_build_object('at', at, 'scopes', scopes,
    'oldest_due', (select to_jsonb(o) from (select t.scope, t.key, t.type, t.due_at, t.reason,
        round(extract(epoch from at - t.due_at) * 1000.0) as ms
      from onceward.task t where t.due_at <= at and t.state = 'waiting' order by t.due_at limit 1) o),
    'oldest_running', (select to_jsonb(o) from (select t.scope, t.key, t.type, t.started_at, t.due_at as lease_ends_at,
        t.held_by, t.attempt, round(extract(epoch from at - t.started_at) * 1000.0) as ms
      from onceward.task t where t.due_at is not null and t.state = 'running' order by t.started_at limit 1) o),
    'failures', (select coalesce(jsonb_agg(to_jsonb(e)), '[]') from (
      select onceward.kind_of_error(l.detail) as error, count(*) as count, max(l.logged_at) as latest_at,
        count(*) filter (where l.what = 'dead') as dead,
        (array_agg(jsonb_build_object('scope', l.scope, 'key', l.key) order by l.logged_at desc))[1] as example
      from onceward.log l
      where l.logged_at > at - interval '1 hour' and l.what in ('failed', 'dead', 'unknown', 'lapsed')
      group by 1 order by 2 desc, 1 limit 50) e),
    'workers', (select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'lanes', w.lanes, 'started_at', w.started_at,
        'seen_ms', round(extract(epoch from at - w.seen_at) * 1000.0), 'there', w.seen_at > at - interval '90 seconds')
      order by w.id), '[]') from onceward.worker w),
    'done_about', case when exact::boolean then null else
      (select greatest(0, c.reltuples::bigint - waiting - parked) from pg_class c
        where c.oid = 'onceward.task'::regclass::oid and c.reltuples >= 0::real) end);
end
$fn$;

-- stuck: what should be moving and is not, and why.
--   "lease run out"           its worker is gone or hangs, and nobody has taken it over
--   "waiting for its group"   another task of its serial group comes first ("behind")
--   "no worker seen"          it is due, and no worker has said hello
--   "no handler"              it is due, and no worker there knows its lane; or its handler was not found
--   "no free worker"          it is due for longer than `older_than`, though workers for it are there
--   "unknown outcome"         nobody knows whether a step's outside effect took place: resolve it
--   "dead"                    it gave up
-- {"groups": [{reason, scope, count, oldest_at}], "tasks": [… at most `max` of each reason, the oldest first],
--  "ignored": [{scope, type, count, oldest_at}]}    the last are no fault: types that had no handler when they came
create function onceward.stuck(older_than text default '1 minute', max text default '100', lane text default null)
  returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  at timestamptz := onceward.now();
  cutoff timestamptz := at - older_than::interval;
  workers boolean := exists (select from onceward.worker w where w.seen_at > at - interval '90 seconds');
  answer jsonb;
begin
  with unfinished as materialized (
    select t.scope, t.key, t.type, t.state, t.attempt, t.tries, t.behind, t.held_by, t.reason as error, t.created_at,
      case when t.state = 'running' then 'lease run out'
        when t.behind is not null then 'waiting for its group'
        when t.reason like '%: no handler for %' then 'no handler' end as why,
      case when t.behind is null then t.due_at else t.created_at end as since
    from onceward.task t
    where t.due_at is not null and (stuck.lane is null or t.scope = stuck.lane or starts_with(t.scope, stuck.lane || '/'))
      and case when t.state = 'running' then t.due_at < cutoff
        when t.behind is not null then t.created_at < cutoff
        else t.due_at < cutoff or t.reason like '%: no handler for %' end
  ), scopes as materialized (
    select u.scope, case when not workers then 'no worker seen' when onceward.is_attended(u.scope) then 'no free worker'
      else 'no handler' end as why
    from (select distinct n.scope from unfinished n where n.why is null) u
  ), held_up as materialized (
    select u.scope, u.key, u.type, u.state, u.attempt, u.tries, u.behind, u.held_by, u.error, u.created_at,
      coalesce(u.why, s.why) as reason, u.since
    from unfinished u left join scopes s on s.scope = u.scope and u.why is null
    union all
    select t.scope, t.key, t.type, t.state, t.attempt, t.tries, null, t.held_by, t.reason, t.created_at,
      case t.state when 'dead' then 'dead' else 'unknown outcome' end, t.finished_at
    from onceward.task t
    where t.state in ('dead', 'unknown') and (stuck.lane is null or t.scope = stuck.lane or starts_with(t.scope, stuck.lane || '/'))
  )
  select jsonb_build_object(
    'groups', (select coalesce(jsonb_agg(to_jsonb(g) order by g.count desc, g.reason, g.scope), '[]') from
      (select k.reason, k.scope, count(*) as count, min(k.since) as oldest_at from held_up k group by k.reason, k.scope) g),
    'tasks', (select coalesce(jsonb_agg(to_jsonb(f) - 'place' || jsonb_build_object('behind_state',
        (select b.state from onceward.task b where b.scope = f.scope and b.key = f.behind)) order by f.reason, f.since, f.key), '[]')
      from (select k.*, row_number() over (partition by k.reason order by k.since, k.scope, k.key) as place from held_up k) f
      where f.place <= stuck.max::integer))
  into answer;
  return answer || jsonb_build_object('ignored', (select coalesce(jsonb_agg(to_jsonb(g) order by g.count desc, g.scope, g.type), '[]')
    from (select t.scope, t.type, count(*) as count, min(t.finished_at) as oldest_at from onceward.task t
      where t.state = 'ignored' and (stuck.lane is null or t.scope = stuck.lane or starts_with(t.scope, stuck.lane || '/'))
      group by t.scope, t.type) g));
end
$fn$;

-- story: all that the ledger knows of one task and of what it brought about, or null. What a task took, enqueued and
-- moved, it did between its record and its end: so the indexes by time find it.
create function onceward.story(scope text, key text) returns jsonb
  language plpgsql stable set jit = off set enable_seqscan = off
  as $fn$
declare
  t onceward.task;
  me text := story.scope || ' ' || story.key;
  until timestamptz;
begin
  select * into t from onceward.task k where k.scope = story.scope and k.key = story.key;
  if not found then
    return null;
  end if;
  until := coalesce(t.finished_at, onceward.now()) + interval '1 second';
  return onceward.look(story.scope, story.key) || jsonb_build_object(
    'payload_bytes', (select octet_length(coalesce(p.body, '')) + coalesce(octet_length(p.bytes), 0) from onceward.payload p
      where p.scope = t.scope and p.key = t.key),
    'deliveries', (select jsonb_build_object('again', d.again, 'last_at', d.last_at) from onceward.delivery d
      where d.scope = t.scope and d.key = t.key),
    'earlier_steps', (select coalesce(jsonb_agg(jsonb_build_object('generation', s.generation, 'name', s.name, 'state', s.state,
        'attempt', s.attempt, 'started_at', s.started_at, 'finished_at', s.finished_at) order by s.generation, s.started_at, s.name), '[]')
      from onceward.step s where s.scope = t.scope and s.key = t.key and s.generation < t.generation),
    'effects', (select coalesce(jsonb_agg(jsonb_build_object('scope', e.scope, 'key', e.key, 'taken_at', e.taken_at)
        order by e.taken_at, e.key), '[]')
      from onceward.effect e where e.cause = me and e.taken_at >= t.created_at and e.taken_at <= until),
    'enqueued', (select coalesce(jsonb_agg(jsonb_build_object('scope', c.scope, 'key', c.key, 'state', c.state,
        'created_at', c.created_at, 'reason', c.reason) order by c.created_at, c.scope, c.key), '[]')
      from onceward.task c where c.cause = me and c.created_at >= t.created_at and c.created_at <= until),
    'moves', (select coalesce(jsonb_agg(jsonb_build_object('machine', m.name, 'subject', m.subject, 'version', m.version,
        'move', m.move, 'from', m.from_state, 'to', m.to_state, 'at', m.moved_at) order by m.moved_at), '[]')
      from onceward.move m where m.cause = me and m.moved_at >= t.created_at and m.moved_at <= until),
    'causes', (with recursive up(cause, depth) as (
        select t.cause, 1 where t.cause is not null
        union all
        select c.cause, up.depth + 1 from up join onceward.task c
          on c.scope = split_part(up.cause, ' ', 1) and c.key = substr(up.cause, strpos(up.cause, ' ') + 1)
        where c.cause is not null and up.depth < 20)
      select coalesce(jsonb_agg(up.cause order by up.depth), '[]') from up),
    'audit', (select coalesce(jsonb_agg(to_jsonb(a) - 'scope' - 'key' order by a.changed_at), '[]')
      from onceward.audit a where a.scope = t.scope and a.key = t.key));
end
$fn$;

-- The value of a column as those read it who keep numbers as doubles, JavaScript before all: one of more digits than
-- they keep (15) is given as text, else a key above 2^53 would name another row.
create function onceward.exact(value jsonb) returns jsonb
  language sql immutable
  as $fn$
    select case when jsonb_typeof(value) = 'number' and length(regexp_replace(value::text, '\D', '', 'g')) > 15
      then to_jsonb(value::text) else value end
  $fn$;

-- rows_of: which rows of your own tables the commits of a task wrote that nobody has changed since, or null where there
-- is no such task. A row carries the id of the transaction that wrote it, and so do the rows of the ledger that were
-- written with it: the completion, steps, effect keys, moves, and payloads of what it enqueued. It reads whole tables,
-- so those above `largest` bytes are left out and named. Rows that were written under a savepoint carry another id.
--   {"tables": [{"table": t, "rows": n, "keys": [primary keys, at most `max`]}], "left_out": [tables]}
create function onceward.rows_of(scope text, key text, max text default '20', largest text default '1073741824')
  returns jsonb
  language plpgsql stable set jit = off
  as $fn$
declare
  t onceward.task;
  me text := rows_of.scope || ' ' || rows_of.key;
  until timestamptz;
  xids xid[];
  c record;
  rows bigint;
  keys jsonb;
  tables jsonb := '[]';
  left_out jsonb := '[]';
begin
  select * into t from onceward.task k where k.scope = rows_of.scope and k.key = rows_of.key;
  if not found then
    return null;
  end if;
  until := coalesce(t.finished_at, onceward.now()) + interval '1 second';
  select array_agg(w.xid) into xids from (
    select k.xmin as xid from onceward.task k where k.scope = t.scope and k.key = t.key and k.state = 'done'
    union all
    select s.xmin from onceward.step s where s.scope = t.scope and s.key = t.key and s.state = 'done'
    union all
    select e.xmin from onceward.effect e where e.cause = me and e.taken_at between t.created_at and until
    union all
    select m.xmin from onceward.move m where m.cause = me and m.moved_at between t.created_at and until
    union all
    select p.xmin from onceward.task k join onceward.payload p on p.scope = k.scope and p.key = k.key
    where k.cause = me and k.created_at between t.created_at and until
  ) w;
  for c in
    select r.oid, r.oid::regclass::text as name, pg_relation_size(r.oid::regclass) as size,
      (select string_agg(quote_ident(a.attname::text), ', ' order by array_position(i.indkey::smallint[], a.attnum))
        from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey::smallint[])
        where i.indrelid = r.oid and i.indisprimary) as key
    from pg_class r join pg_namespace n on n.oid = r.relnamespace
    where r.relkind = 'r' and n.nspname not like 'pg\_%' and n.nspname <> 'information_schema'
      and r.relnamespace <> (select l.relnamespace from pg_class l where l.oid = 'onceward.task'::regclass::oid)
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(r.oid, 'select')
    order by 2
  loop
    if c.size > largest::bigint then
      left_out := left_out || to_jsonb(c.name);
      continue;
    end if;
    execute format('select count(*) from %s as r where r.xmin = any ($1)', c.name) into rows using xids;
    if rows > 0 then
      keys := '[]';
      if c.key is not null then
        execute format('select jsonb_agg((select jsonb_object_agg(e.key, onceward.exact(e.value)) from jsonb_each(to_jsonb(k)) as e))
            from (select %s from %s as r where r.xmin = any ($1) limit $2) k', c.key, c.name)
          into keys using xids, rows_of.max::integer;
      end if;
      tables := tables || jsonb_build_object('table', c.name, 'rows', rows, 'keys', keys);
    end if;
  end loop;
  return jsonb_build_object('tables', tables, 'left_out', left_out);
end
$fn$;

-- delivered_again: these were delivered so many times more. Of what was pruned meanwhile nothing is counted: nobody
-- would ever delete it.
create function onceward.delivered_again(scopes text[], keys text[], counts text[]) returns jsonb
  language plpgsql volatile
  as $fn$
begin
  insert into onceward.delivery as d (scope, key, again, last_at)
  select u.scope, u.key, u.count, onceward.now() from unnest(scopes, keys, counts::integer[]) as u(scope, key, count)
  where exists (select from onceward.task t where t.scope = u.scope and t.key = u.key)
  order by u.key, u.scope
  on conflict on constraint delivery_pkey do update set again = d.again + excluded.again, last_at = excluded.last_at;
  return to_jsonb(cardinality(keys));
end
$fn$;

-- audit: what people changed, the newest first.
create function onceward.audit(
  since text default null, until text default null, actor text default null, what text default null,
  scope text default null, key text default null, max text default '100'
) returns jsonb
  language sql stable
  as $fn$
    select coalesce(jsonb_agg(to_jsonb(found)), '[]') from (
      select a.* from onceward.audit a
      where (audit.since is null or a.changed_at >= audit.since::timestamptz)
        and (audit.until is null or a.changed_at < audit.until::timestamptz)
        and (audit.actor is null or a.actor = audit.actor) and (audit.what is null or a.what = audit.what)
        and (audit.scope is null or a.scope = audit.scope) and (audit.key is null or a.key = audit.key)
      order by a.changed_at desc, a.scope, a.key limit audit.max::integer
    ) found
  $fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
