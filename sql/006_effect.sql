-- once: an effect key takes effect once, whatever event brings it. [true | false, …]
-- Called inside the transaction that writes the effect: both commit, or neither does. Somebody else
-- who is about to take the same key is waited for; if he rolls back, it is ours.
create function onceward.once_many(scopes text[], keys text[], causes text[] default null) returns jsonb
  language plpgsql volatile
  as $fn$
declare
  item record;
  taken boolean[] := array_fill(false, array[cardinality(keys)]);
begin
  -- In one order for everybody: two who take the same keys wait for each other instead of deadlocking.
  for item in
    select u.* from unnest(scopes, keys, causes) with ordinality as u(scope, key, cause, i) order by u.key, u.scope, u.i
  loop
    insert into onceward.effect (scope, key, cause, taken_at)
    values (item.scope, item.key, item.cause, onceward.now())
    on conflict do nothing;
    taken[item.i] := found;
  end loop;
  return to_jsonb(taken);
end
$fn$;

create function onceward.once(key text, scope text default 'effect', cause text default null) returns jsonb
  language sql volatile
  as $fn$ select onceward.once_many(array[scope], array[key], array[cause]) -> 0 $fn$;
