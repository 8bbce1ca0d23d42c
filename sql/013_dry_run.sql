-- What a dry run would have changed: found in the transaction that is about to be rolled back.
--
--   begin; dry_run_begin; savepoint; …the handler…; dry_run_after; rollback to the savepoint; dry_run_before; rollback
--
-- No triggers: to create one locks its table against every writer until the transaction ends, and needs a right that
-- applications often lack. No copies of tables from before and after: they cost what the tables hold, and what others
-- commit in between would look like ours. Instead Postgres itself is asked:
-- - pg_locks says which tables this transaction has written to (a lock that each writer takes, and that hinders no
--   other writer), and which sequences it has drawn from;
-- - a row version that this transaction has made carries one of its ids in `xmin`. Those are the rows afterwards;
-- - a row version that it has replaced or deleted carries one in `xmax`, and can be seen again after the rollback to
--   the savepoint, until somebody else changes the row. Those are the rows before.
-- All of it works for any role, in any Postgres from 15 on, hosted or embedded, behind any pooler. The price is a look
-- at each table that was written to, so tables above a size are left out, and only counted. While it looks, the rows
-- that the handler changed stay locked, as they are while it runs; the second look is after they were let go.
--
-- What is compared are hashes, so that no value of a column leaves the database unless it was asked for.

-- It must not wait for others for long, since others may wait for what it holds. Answers with what Postgres has counted
-- on this connection already and not yet passed on, which is not ours: {oid: [inserts, updates, deletes], …}
create function onceward.dry_run_begin(lock_timeout text, statement_timeout text) returns jsonb
  language sql volatile
  as $fn$
    with limits as materialized (
      select set_config('lock_timeout', dry_run_begin.lock_timeout, true),
        set_config('statement_timeout', dry_run_begin.statement_timeout, true)
    )
    select coalesce(jsonb_object_agg(t.relid::text, jsonb_build_array(t.n_tup_ins, t.n_tup_upd, t.n_tup_del)), '{}')
    from limits, pg_stat_xact_user_tables t
  $fn$;

-- The ids of this transaction and of its savepoints, released ones included, which are in no list: of all that were
-- given out since it began, those that are in progress and nobody else's. (Everybody holds a lock on his own, but not
-- on those of his released savepoints. Who rolls one of these back this very moment could be taken for us.)
create function onceward.own_xids() returns text[]
  language plpgsql volatile
  as $fn$
declare
  first bigint := pg_current_xact_id_if_assigned()::text::bigint;
  last bigint;
begin
  if first is null then
    return '{}';
  end if;
  begin
    -- The latest id is that of this block, which is undone at once.
    insert into onceward.cursor (name, value, moved_at) values ('dry run ' || first, '', onceward.now())
    returning first + mod(xmin::text::bigint - mod(first, 4294967296) + 4294967296, 4294967296) into last;
    raise exception 'seen';
  exception when raise_exception then
    null;
  end;
  return (
    with others as materialized (
      select l.transactionid::text as id from pg_locks l
      where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
    )
    select coalesce(array_agg(x.xid), '{}')
    -- So many mean a long run on a busy server; what comes after them is not known to be ours.
    from (select u.id, mod(u.id, 4294967296)::text as xid
      from generate_series(first, least(last - 1, first + 100000)) as u(id)) x
    where pg_xact_status(x.id::text::xid8) = 'in progress' and x.xid not in (select o.id from others o)
  );
end
$fn$;

-- Rows of one table as {"key": {…}, "columns": {…}, "values": {…}}: of each column its hash, by which rows are compared,
-- and where they were asked for the values.
--   [row, …], at most max_rows
create function onceward.dry_run_rows(
  of_table oid, key_columns text[], condition text, xids text[], skip text[], with_values boolean, max_rows integer
) returns jsonb
  language plpgsql volatile set jit = off
  as $fn$
declare
  answer jsonb;
begin
  execute format($sql$
    select coalesce(jsonb_agg(jsonb_build_object(
      'key', (select jsonb_object_agg(c.key, onceward.exact(c.value)) from jsonb_each(r.row) as c where c.key = any ($1)),
      'columns', (select jsonb_object_agg(c.key, hashtextextended(c.value::text, 0)::text) from jsonb_each(r.row) as c),
      'values', (select jsonb_object_agg(c.key, onceward.exact(c.value)) from jsonb_each(r.row) as c where $2))), '[]')
    from (select to_jsonb(t) as row from only %s t where %s limit $3) r
    $sql$, of_table::regclass, condition)
  into answer using key_columns, with_values, max_rows, xids::xid[], skip::tid[];
  return answer;
end
$fn$;

-- Was a row replaced or deleted by one of these, as one of several that hold it? Then its xmax is the number of a list
-- of holders, which looks like any other id: so this is asked only where rows are still missing.
create function onceward.was_changed_by(holders xid, xids text[]) returns boolean
  language plpgsql volatile
  as $fn$
begin
  return exists (select from pg_get_multixact_members(holders) as m
    where m.xid::text = any (xids) and m.mode in ('nokeyupd', 'upd'));
exception when others then
  return false; -- It is no such list.
end
$fn$;

-- Which tables it has written to, and what stands in them now that is its work.
--   {"xids": […], "sequences": [name, …], "tables": [table, …]}
--   table: {"oid", "table": name, "key": [column, …], "inserts": n, "updates": n, "deletes": n,
--     "rows": [row, …], "locked": [ctid, …]}, or "unseen": why instead of the rows
-- inserts, updates, deletes: as Postgres counts them, what was undone within the transaction included.
create function onceward.dry_run_after(with_values text, max_bytes text, max_rows text) returns jsonb
  language plpgsql volatile set jit = off
  as $fn$
declare
  xids text[];
  written oid[];
  owned oid[]; -- locked against everybody
  tables jsonb := '[]';
  seen jsonb;
  locked jsonb;
  t record;
begin
  -- What would run at the commit runs now, and may write, too.
  set constraints all immediate;
  written := array(select l.relation from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'relation'
    and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'));
  owned := array(select l.relation from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'relation'
    and l.mode = 'AccessExclusiveLock');
  xids := onceward.own_xids();
  for t in
    select c.oid, format('%I.%I', n.nspname, c.relname) as name, pg_relation_size(c.oid) as size,
      c.oid = any (owned) as owned,
      array(select a.attname::text from pg_index i
        cross join unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = c.oid and i.indisprimary order by k.n) as key
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = any (written) and c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
      and c.relnamespace <> (select o.relnamespace from pg_class o where o.oid = 'onceward.task'::regclass)
    order by 2
  loop
    seen := jsonb_build_object('oid', t.oid::text, 'table', t.name, 'key', to_jsonb(t.key),
      'inserts', pg_stat_get_xact_tuples_inserted(t.oid), 'updates', pg_stat_get_xact_tuples_updated(t.oid),
      'deletes', pg_stat_get_xact_tuples_deleted(t.oid));
    if t.size > max_bytes::bigint then
      seen := seen || '{"unseen": "too large"}';
    elsif t.owned then
      seen := seen || '{"unseen": "truncated or altered as a whole"}';
    else
      begin
        seen := seen || jsonb_build_object('rows', onceward.dry_run_rows(
          t.oid, t.key, 't.xmin = any ($4)', xids, '{}', with_values::boolean, max_rows::integer));
        -- What can be seen although its xmax is ours is locked, and not deleted.
        execute format('select coalesce(jsonb_agg(t.ctid::text), %L) from only %s t where t.xmax = any ($1)',
          '[]', t.oid::regclass) into locked using xids::xid[];
        seen := seen || jsonb_build_object('locked', locked);
      exception when insufficient_privilege then
        seen := seen || '{"unseen": "not readable"}';
      end;
    end if;
    tables := tables || seen;
  end loop;
  return jsonb_build_object('xids', to_jsonb(xids), 'tables', tables, 'sequences', (
    select coalesce(jsonb_agg(format('%I.%I', n.nspname, c.relname) order by n.nspname, c.relname), '[]')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = any (written) and c.relkind = 'S'));
end
$fn$;

-- The same rows as they were, after the rollback to the savepoint: what was replaced or deleted, and what stands under
-- the keys that were found afterwards (where others hold the row too, its xmax is not ours). One answer a table:
--   [[row, …], …]
-- tables: their oids; seen: what was found in them afterwards, as
--   {"key": […], "locked": […], "rows": [{"key": …}, …], "changes": updates and deletes}
create function onceward.dry_run_before(tables text[], seen text[], xids text[], with_values text, max_rows text)
  returns jsonb
  language plpgsql volatile set jit = off
  as $fn$
declare
  answers jsonb := '[]';
  of_table oid;
  one jsonb;
  key_columns text[];
  rows jsonb;
begin
  for i in 1..cardinality(tables) loop
    of_table := tables[i]::oid;
    one := seen[i]::jsonb;
    key_columns := array(select jsonb_array_elements_text(one -> 'key'));
    rows := onceward.dry_run_rows(of_table, key_columns, 't.xmax = any ($4) and t.ctid <> all ($5)', xids,
      array(select jsonb_array_elements_text(one -> 'locked')), with_values::boolean, max_rows::integer);
    if cardinality(key_columns) > 0 then
      rows := rows || onceward.dry_run_rows(of_table, key_columns, format(
        '(%s) in (select %s from jsonb_populate_recordset(null::%s, %L) as k) and t.xmax <> all ($4)',
        (select string_agg(format('t.%I', c), ', ') from unnest(key_columns) as c),
        (select string_agg(format('k.%I', c), ', ') from unnest(key_columns) as c),
        of_table::regclass, (select coalesce(jsonb_agg(r -> 'key'), '[]') from jsonb_array_elements(one -> 'rows') as r)),
        xids, '{}', with_values::boolean, max_rows::integer);
    end if;
    if jsonb_array_length(rows) < (one ->> 'changes')::integer then
      rows := rows || onceward.dry_run_rows(of_table, key_columns, format(
        't.xmax <> all ($4) and t.xmax <> %L::xid and onceward.was_changed_by(t.xmax, $4::text[])', '0'),
        xids, '{}', with_values::boolean, max_rows::integer);
    end if;
    answers := answers || jsonb_build_array(rows);
  end loop;
  return answers;
end
$fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
