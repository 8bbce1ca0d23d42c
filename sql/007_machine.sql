-- move: a subject goes from one of the states that allow it to another, once. A compare-and-set:
-- of two who try the same move at once, one moves and the other finds it moved.
--   {"outcome": "moved", "from": s, "state": s, "version": n}
--   {"outcome": "refused", "state": s, "version": n}          not from this state
-- `initial` is the state of a subject that was never seen. `version`: only if it is still this one.
create function onceward.move(
  machine text, subject text, move text, from_states text[], to_state text, initial text,
  version text default null, cause text default null
) returns jsonb
  language plpgsql volatile set jit = off set enable_seqscan = off
  as $fn$
declare
  m onceward.machine;
  at timestamptz;
begin
  insert into onceward.machine (name, subject, state, version, since)
  values (move.machine, move.subject, move.initial, 0, onceward.now())
  on conflict do nothing;
  select * into strict m from onceward.machine k
  where k.name = move.machine and k.subject = move.subject for no key update;
  if not m.state = any (from_states) or m.version <> coalesce(move.version::integer, m.version) then
    return jsonb_build_object('outcome', 'refused', 'state', m.state, 'version', m.version);
  end if;
  at := onceward.now();
  update onceward.machine k set state = move.to_state, version = m.version + 1, since = at
  where k.name = m.name and k.subject = m.subject;
  insert into onceward.move (name, subject, version, move, from_state, to_state, cause, moved_at)
  values (m.name, m.subject, m.version + 1, move.move, m.state, move.to_state, move.cause, at);
  return jsonb_build_object('outcome', 'moved', 'from', m.state, 'state', move.to_state, 'version', m.version + 1);
end
$fn$;

-- machine_state: where a subject stands, and how it came there.
create function onceward.machine_state(machine text, subject text) returns jsonb
  language sql stable
  as $fn$
    select jsonb_build_object('state', m.state, 'version', m.version, 'since', m.since, 'moves',
      (select coalesce(jsonb_agg(jsonb_build_object('version', v.version, 'move', v.move, 'from', v.from_state,
          'to', v.to_state, 'cause', v.cause, 'at', v.moved_at) order by v.version), '[]')
        from onceward.move v where v.name = m.name and v.subject = m.subject))
    from onceward.machine m where m.name = machine_state.machine and m.subject = machine_state.subject
  $fn$;
