-- examine: what `onceward doctor` asks the database: is it fit for a ledger, and is the ledger whole?
--
-- It judges nothing: src/doctor/ says what is wrong with the facts and what to do. Every part can be read by a role
-- without special rights; what such a role may not see (the statistics of others) is missing, and not an error.
--   tables, indexes, functions: the names that this version's schema has; the answer says which are missing
create function onceward.examine(
  tables text[] default '{}', indexes text[] default '{}', functions text[] default '{}'
) returns jsonb
  language sql volatile
  as $fn$
    with home as materialized (
      select c.relnamespace as oid from pg_catalog.pg_class c where c.oid = 'onceward.task'::regclass::oid
    ), rel as materialized (
      select c.* from pg_catalog.pg_class c, home where c.relnamespace = home.oid
    ), fn as materialized (
      select p.* from pg_catalog.pg_proc p, home where p.pronamespace = home.oid
    )
    select jsonb_build_object(
      'version', current_setting('server_version_num')::integer,
      'clock_ms', round(extract(epoch from clock_timestamp()) * 1000.0),
      'ledger_ahead_ms', round(extract(epoch from onceward.now() - clock_timestamp()) * 1000.0),
      'read_only', pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
      'encoding', current_setting('server_encoding'),
      'settings', (select jsonb_object_agg(s.name, s.setting) from pg_catalog.pg_settings s where s.name in ('fsync',
        'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'autovacuum', 'track_counts',
        'max_connections', 'default_transaction_isolation')),
      'connections', (select count(*) from pg_catalog.pg_stat_activity a where a.backend_type = 'client backend'),
      'standbys', (select count(*) from pg_catalog.pg_stat_replication),
      'oldest_transaction_ms', (select round(extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000.0)
        from pg_catalog.pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid()
          and a.backend_type = 'client backend'),
      'missing', (select coalesce(jsonb_agg(m.what order by m.what), '[]') from (
        select 'table ' || t.name from unnest(tables) as t(name)
          where not exists (select from rel where rel.relname = t.name and rel.relkind = 'r')
        union all select 'index ' || i.name from unnest(indexes) as i(name)
          where not exists (select from rel join pg_catalog.pg_index x on x.indexrelid = rel.oid
            where rel.relname = i.name and x.indisvalid)
        union all select 'function ' || f.name from unnest(functions) as f(name)
          where not exists (select from fn where fn.proname = f.name)) as m(what)),
      'denied', (select coalesce(jsonb_agg(d.what order by d.what), '[]') from (
        select p.privilege || ' on ' || rel.relname::text from rel, unnest('{select,insert,update,delete}'::text[]) as p(privilege)
          where rel.relkind = 'r' and not has_table_privilege(rel.oid, p.privilege)
        union all select 'execute on ' || fn.proname::text from fn where not has_function_privilege(fn.oid, 'execute')) as d(what)),
      'open_to_public', (select coalesce(jsonb_agg(distinct o.what order by o.what), '[]') from (
        select fn.proname::text from fn, aclexplode(coalesce(fn.proacl, acldefault('f', fn.proowner))) a where a.grantee = 0::oid
        union all
        select rel.relname::text from rel, aclexplode(coalesce(rel.relacl, acldefault('r', rel.relowner))) a
          where rel.relkind = 'r' and a.grantee = 0::oid) as o(what)),
      'tables', (select coalesce(jsonb_agg(jsonb_build_object('name', s.relname, 'live', s.n_live_tup, 'dead', s.n_dead_tup,
          'bytes', pg_total_relation_size(s.relid::regclass),
          'autovacuum', not coalesce(rel.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'::text[], false))
          order by s.relname), '[]')
        from pg_catalog.pg_stat_user_tables s join rel on rel.oid = s.relid),
      'workers', (select coalesce(jsonb_agg(jsonb_build_object('lanes', w.lanes,
          'seen_ms', round(extract(epoch from onceward.now() - w.seen_at) * 1000.0)) order by w.id), '[]')
        from onceward.worker w))
  $fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
