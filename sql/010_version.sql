-- newer: may this state of an object be applied? Senders deliver in any order, and what they call a time
-- has whole seconds. So the ledger keeps, for each object, the version that was applied last.
--
-- Called inside the transaction that applies the state: both commit, or neither does. The object's row is
-- locked until then, so that two events of one object are compared with each other and not with the past.
--   {"verdict": "apply"}   nothing newer was applied; from now on this is the latest
--   {"verdict": "stale"}   something newer was applied, or the object has come to its end by another cause: what ended
--                          it may be replayed, and is applied again
--   {"verdict": "tie"}     nobody can say which is newer: ask the sender for the object as it is now, outside of
--                          any transaction, and come back with the `revision` of this answer. Where it has
--                          changed meanwhile, what was fetched may be old, and the answer is a tie again.
-- Each with "revision" (how often a state of this object was applied) and "cause" (the task that did it last).
--
-- version: numbers are compared as numbers, all else bytewise; null: nothing is known, and every state but
-- the first is a tie. final: after this state nothing is newer, whatever its version says.
create table onceward.version (
  scope text collate "C" not null,
  key text collate "C" not null,
  version text collate "C",
  revision integer not null,
  final boolean not null,
  cause text,
  applied_at timestamptz not null,
  primary key (key, scope),
  constraint version_key_length check (octet_length(key) between 1 and 1024)
);

-- -1, 0, 1, or null where one of them is not known.
create function onceward.version_order(a text, b text) returns integer
  language sql immutable
  as $fn$
    select case
      when a ~ '^-?\d+(\.\d+)?$' and b ~ '^-?\d+(\.\d+)?$' then sign(a::numeric - b::numeric)::integer
      when a collate "C" > b collate "C" then 1
      when a collate "C" < b collate "C" then -1
      when a = b then 0
    end
  $fn$;

create function onceward.newer(
  scope text, key text, version text default null, final text default 'false', revision text default null,
  cause text default null
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  v onceward.version;
  ordered integer;
  verdict text;
begin
  insert into onceward.version (scope, key, version, revision, final, applied_at)
  values (newer.scope, newer.key, newer.version, 0, false, onceward.now())
  on conflict do nothing;
  select * into v from onceward.version x where x.scope = newer.scope and x.key = newer.key for update;

  ordered := onceward.version_order(newer.version, v.version);
  verdict := case
    when v.revision = 0 then 'apply'
    when v.final and newer.cause = v.cause then 'apply'
    when v.final then 'stale'
    when newer.final::boolean or ordered > 0 then 'apply'
    when ordered < 0 then 'stale'
    when newer.revision = v.revision::text then 'apply'
    else 'tie'
  end;
  if verdict = 'apply' then
    update onceward.version x set
      version = case when ordered > 0 or v.version is null then newer.version else v.version end,
      revision = v.revision + 1, final = v.final or newer.final::boolean, cause = newer.cause, applied_at = onceward.now()
    where x.scope = newer.scope and x.key = newer.key;
  end if;
  return jsonb_build_object('verdict', verdict, 'revision', v.revision, 'cause', v.cause);
end
$fn$;

revoke all on schema onceward from public;
revoke all on all tables in schema onceward from public;
revoke all on all routines in schema onceward from public;
