-- once: an effect key takes effect once, whatever event brings it. [true | false, …]
-- Called inside the transaction that writes the effect: both commit, or neither does. Somebody else
-- who is about to take the same key is waited for; if he rolls back, it is ours.
create function onceward.once_many(scopes text[], keys text[], causes text[] default null) returns jsonb
  language plpgsql volatile
  as $fn$
declare
  answers jsonb := '[]';
begin
  for i in 1..cardinality(keys) loop
    insert into onceward.effect (scope, key, cause, taken_at)
    values (scopes[i], keys[i], causes[i], onceward.now())
    on conflict do nothing;
    answers := answers || to_jsonb(found);
  end loop;
  return answers;
end
$fn$;

create function onceward.once(key text, scope text default 'effect', cause text default null) returns jsonb
  language sql volatile
  as $fn$ select onceward.once_many(array[scope], array[key], array[cause]) -> 0 $fn$;
