-- move: a subject goes from one of the states that allow it to another, once. A compare-and-set:
-- of two who try the same move at once, one moves and the other finds it moved.
--   {"outcome": "moved", "from": s, "state": s, "version": n}
--   {"outcome": "refused", "state": s, "version": n}          not from this state, or no longer this version
--   {"outcome": "early", "state": s, "version": n}            a timer, while an earlier one of its state is due
--   {"outcome": "gone", "state": s, "version": n}             a timer that is set, but not from this state by from_states
-- `initial` is the state of a subject that was never seen. `version`: only if it is still this one.
--
-- timers: what moves the subject on if it stays in the state that it enters, as a JSON array of
-- {"move": m, "after": "3 days", "delay": interval}; `delay` may be left out where `after` is an interval.
-- Each is a task of the scope 'machine/<machine>', recorded here and cancelled by the move that leaves
-- the state. A move within one state leaves its timers alone, so that they count from when the state was
-- entered; with `restart` it counts as entering again.
-- timer: the key of the timer's task that makes this move. It moves only while the subject lists it, so
-- one that comes too late is refused; completing the task in the same transaction keeps it from firing twice.
-- from_states are then those that have this timer: one that a deployment has removed since it was set is gone.
create function onceward.move(
  machine text, subject text, move text, from_states text[], to_state text, initial text,
  version text default null, cause text default null,
  timers text default null, timer text default null, restart text default 'false'
) returns jsonb
  language plpgsql volatile set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $fn$
declare
  m onceward.machine;
  at timestamptz;
  in_scope text := 'machine/' || machine;
  enters boolean;
  kept text[];
begin
  select * into m from onceward.machine k
  where k.name = move.machine and k.subject = move.subject for no key update;
  if not found then
    if (initial = any (from_states)) is not true or timer is not null or move.version::integer <> 0 then
      return jsonb_build_object('outcome', 'refused', 'state', initial, 'version', 0);
    end if;
    insert into onceward.machine (name, subject, state, version, since)
    values (move.machine, move.subject, move.initial, 0, onceward.now())
    on conflict do nothing;
    select * into strict m from onceward.machine k
    where k.name = move.machine and k.subject = move.subject for no key update;
  end if;
  if (m.state = any (from_states)) is not true or m.version <> coalesce(move.version::integer, m.version)
    or (timer is not null and not timer = any (m.timers)) then
    return jsonb_build_object('outcome', case when timer = any (m.timers) then 'gone' else 'refused' end,
      'state', m.state, 'version', m.version);
  end if;
  -- After a pause of the workers several are due at once: they fire in the order of their times. Those that
  -- were early have stepped back for a second, hence the two; one that failed waits longer, and holds up nobody.
  if timer is not null and exists (
    select from unnest(m.timers[:array_position(m.timers, timer) - 1]) as e(key)
    join onceward.task t on t.scope = in_scope and t.key = e.key
    where t.state = 'running' or t.due_at <= onceward.now() + interval '2 seconds'
  ) then
    return jsonb_build_object('outcome', 'early', 'state', m.state, 'version', m.version);
  end if;

  at := onceward.now();
  enters := m.state <> to_state or restart::boolean;
  kept := array_remove(m.timers, timer);
  if enters then
    perform onceward.cancel(in_scope, k.key, 'left the state ' || m.state, '') from unnest(kept) as k(key);
    kept := onceward.set_timers(in_scope, m.subject, m.version + 1, timers::jsonb, at, move.cause);
  end if;
  update onceward.machine k set state = move.to_state, version = m.version + 1, timers = kept,
    since = case when enters then at else m.since end
  where k.name = m.name and k.subject = m.subject;
  insert into onceward.move (name, subject, version, move, from_state, to_state, cause, moved_at)
  values (m.name, m.subject, m.version + 1, move.move, m.state, move.to_state, move.cause, at);
  return jsonb_build_object('outcome', 'moved', 'from', m.state, 'state', move.to_state, 'version', m.version + 1);
end
$fn$;

-- Records the timers of a state that was entered with this version, and returns their keys, soonest first.
create function onceward.set_timers(
  in_scope text, subject text, version integer, timers jsonb, at timestamptz, cause text
) returns text[]
  language plpgsql volatile
  as $fn$
declare
  keys text[] := '{}';
  t record;
  recorded jsonb;
begin
  for t in
    select subject || ' v' || version || ' ' || (o.o ->> 'move') || ' after ' || (o.o ->> 'after') as key,
      jsonb_build_object('subject', subject, 'move', o.o ->> 'move', 'after', o.o ->> 'after') as body,
      at + coalesce(o.o ->> 'delay', o.o ->> 'after')::interval as due_at
    from jsonb_array_elements(timers) as o(o) order by 3, 1
  loop
    recorded := onceward.record(in_scope, t.key, t.body::text,
      options => jsonb_strip_nulls(jsonb_build_object('due_at', t.due_at, 'cause', cause))::text);
    if recorded ->> 'outcome' = 'refused' then
      -- Without its timer the subject would stay in this state for ever.
      raise exception using errcode = '22023', message = 'onceward: a timer was refused: ' || (recorded ->> 'code'),
        hint = 'A machine has a name of up to 247 bytes without spaces; subject, move and time of a timer have 1000 together.';
    end if;
    keys := keys || t.key;
  end loop;
  return keys;
end
$fn$;

-- machine_state: where a subject stands, how it came there, and what will move it if it stays.
create function onceward.machine_state(machine text, subject text) returns jsonb
  language sql stable
  as $fn$
    select jsonb_build_object('state', m.state, 'version', m.version, 'since', m.since,
      'moves', (select coalesce(jsonb_agg(jsonb_build_object('version', v.version, 'move', v.move,
          'from', v.from_state, 'to', v.to_state, 'cause', v.cause, 'at', v.moved_at) order by v.version), '[]')
        from onceward.move v where v.name = m.name and v.subject = m.subject),
      'timers', (select coalesce(jsonb_agg(jsonb_build_object('key', t.key, 'state', t.state, 'due_at', t.due_at)
          order by k.n), '[]')
        from unnest(m.timers) with ordinality as k(key, n)
        join onceward.task t on t.scope = 'machine/' || m.name and t.key = k.key))
    from onceward.machine m where m.name = machine_state.machine and m.subject = machine_state.subject
  $fn$;

-- abort: raises, so that nothing of this transaction can be committed. For a move whose effects failed
-- half way inside somebody else's transaction: swallowing that error must not keep the move without them.
create function onceward.abort(reason text) returns jsonb
  language plpgsql volatile
  as $fn$
begin
  raise exception '%', reason;
end
$fn$;
