-- Onceward: the ledger.
--
-- A task is one thing that must happen once: an event to handle, a job to run, an action to take.
-- Its identity is (scope, key), for ever. A scope says who runs it: 'stripe', 'stripe/acct_1',
-- 'job/send-download'; the part before the first '/' of an event's scope (all of a job's) is its
-- lane: what a worker must know to run it.
--
--            record                claim                  complete
--   (nothing) ─────▶ waiting ────────────────▶ running ─────────────▶ done
--                      ▲  ▲      attempt + 1    │ │ │
--                      │  └─────────────────────┘ │ └──▶ dead | unknown | cancelled
--                      │   fail (backoff), defer  │                │
--                      └──────────────────────────┴────────────────┘
--                          the lease ends                replay
--
-- `due_at` is the heart: when a task may next be claimed. Waiting: not before then. Running: when
-- its lease ends. Finished: null. So what a crashed worker held comes back by itself, through the
-- very query that finds new work. There is no sweeper that one could forget to run.
--
-- `attempt` is the fencing token. Claiming is a compare-and-set that raises it, in a commit before
-- the work starts; complete, fail, renew, defer and step_save carry it, and a stale one changes
-- nothing and answers 'lost'. `tries` counts the attempts that were used up without success: at
-- `max_tries` a task is dead, also when each attempt killed its process before it could say so.
--
-- Every verb takes text or text[] and returns jsonb, so any driver, ORM, psql, Python or
-- supabase.rpc can call it in one round trip. Batch forms (`…_many`) are the implementation; the
-- single form is a batch of one. Verbs answer with values and raise nothing for what can happen in
-- ordinary life: an error inside somebody's transaction would abort it.
--
-- The clock is onceward.now(): the database's wall clock. Not the SQL now(), which stands still
-- within a transaction, so that a taker who waited on a lock while a lease ran out would refuse.
--
-- Text is compared bytewise (collate "C"): the same order on every server, no index that breaks
-- when the system's locale data changes, and prefixes of scopes are ranges.
--
-- Indexes of identities have the key first: it tells two tasks apart at once, where most have the same scope. With the
-- scope first a batch costs the server a tenth more, all of it to compare scopes that are equal.

create function onceward.now() returns timestamptz
  language sql volatile parallel safe
  as $fn$ select clock_timestamp() $fn$;

-- What holds of every task. A function, since a constraint is kept as text, and every statement that writes reads and
-- prepares that text anew: written out, it took a third of all that a lone record and complete cost the server.
create function onceward.is_sound(
  scope text, key text, state text, due_at timestamptz, started_at timestamptz, finished_at timestamptz, attempt integer,
  tries smallint, max_tries smallint, serial text, behind text, reason text
) returns boolean
  language plpgsql immutable parallel safe
  as $fn$
begin
  return octet_length(scope) between 1 and 255 and octet_length(key) between 1 and 1024
    and tries between 0 and attempt and tries <= max_tries
    and case state
      when 'running' then due_at is not null and finished_at is null and behind is null
        and attempt > 0 and started_at is not null
      when 'waiting' then due_at is not null and finished_at is null and (behind is null or serial is not null)
      else due_at is null and finished_at is not null and behind is null
        and (state in ('done', 'ignored') or (state in ('dead', 'unknown', 'cancelled') and reason is not null))
    end;
end
$fn$;

-- Small and hot. Fixed-width columns stand first, so that no bytes are lost to alignment.
create table onceward.task (
  created_at timestamptz not null,
  due_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  attempt integer not null default 0,
  generation integer not null default 1,
  tries smallint not null default 0,
  max_tries smallint not null default 30,
  priority smallint not null default 0,
  slots smallint,                       -- how many of one serial group may run at once; null: one, in order
  state text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  type text collate "C",                -- an event's type
  serial text collate "C",              -- the group whose tasks run one after another
  behind text collate "C",              -- the key of the task of its group that it waits for
  fingerprint text collate "C",         -- what must be equal whenever this identity is recorded again
  origin text collate "C",              -- how it came, where it was not delivered: 'backfill'
  cause text,                           -- the task that enqueued this one, as 'scope key'
  held_by text,                         -- the worker of the latest attempt
  reason text,                          -- why it is parked, or what its latest failure said
  primary key (key, scope),
  constraint task_is_sound check (onceward.is_sound(scope, key, state, due_at, started_at, finished_at, attempt, tries,
    max_tries, serial, behind, reason))
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

-- What may be claimed, and nothing else: its size follows the backlog, not the history.
create index task_due on onceward.task (scope, priority desc, due_at) where due_at is not null;
-- What is parked, for whoever is on call.
create index task_parked on onceward.task (state, scope, finished_at)
  where state in ('dead', 'ignored', 'cancelled', 'unknown');
-- Groups: who is first in line, and how many run. Only rows with a group or a limit are in them.
create index task_serial on onceward.task (scope, serial, created_at, key)
  where serial is not null and due_at is not null;
create index task_slots on onceward.task (scope, serial)
  where state = 'running' and (slots is not null or serial is not null);
-- Looking back by time costs next to nothing on the way in. Vacuum keeps it up, which comes often since each task is
-- changed. Not autosummarize: it asks for every range by itself, and what cannot be taken the server writes into its log,
-- with the statement: 128 KB of it for 140,000 tasks at 20,000 a second.
create index task_created on onceward.task using brin (created_at) with (pages_per_range = 16);

-- Written once, read by who runs it or looks. Apart from the task, since each change of state would
-- rewrite it (2,100 bytes of WAL instead of 280), and so that it can be pruned before its key.
-- The bytes as they came: as text where they are valid UTF-8 without NUL, else as bytes.
create table onceward.payload (
  scope text collate "C" not null,
  key text collate "C" not null,
  body text,
  bytes bytea,
  primary key (key, scope),
  constraint payload_is_one check (num_nonnulls(body, bytes) = 1)
-- The usual event stays in its row. At the default of 2,000 bytes it went into the overflow table, in two pieces with
-- an index of their own.
) with (toast_tuple_target = 2700);

do $do$
begin
  alter table onceward.payload alter column body set compression lz4;
  alter table onceward.payload alter column bytes set compression lz4;
exception when feature_not_supported then
  null; -- This server was built without lz4; its own method serves too, at twice the CPU.
end
$do$;

-- What a finished task returned, where it returned something.
create table onceward.result (
  scope text collate "C" not null,
  key text collate "C" not null,
  value text not null,
  primary key (key, scope)
);

-- A named part of a task. A new generation of the task starts with no steps.
create table onceward.step (
  scope text collate "C" not null,
  key text collate "C" not null,
  generation integer not null,
  name text collate "C" not null,
  state text collate "C" not null,
  attempt integer not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  value text,                           -- JSON; null where a done step returned nothing
  primary key (key, scope, generation, name),
  constraint step_name_length check (octet_length(name) between 1 and 255),
  constraint step_state_known check (state in ('started', 'done', 'failed', 'waiting')),
  constraint step_finished_has_time check ((finished_at is not null) = (state in ('done', 'failed')))
);

-- What somebody outside told a waiting task: an approval, an answer. The first word counts, for this
-- generation of the task.
create table onceward.signal (
  scope text collate "C" not null,
  key text collate "C" not null,
  generation integer not null,
  name text collate "C" not null,
  value text,
  fingerprint text collate "C",
  actor text,
  sent_at timestamptz not null,
  primary key (key, scope, generation, name)
);

-- Business keys that took effect. `cause` is the task that brought it.
create table onceward.effect (
  scope text collate "C" not null,
  key text collate "C" not null,
  cause text,
  taken_at timestamptz not null,
  primary key (key, scope),
  constraint effect_key_length check (octet_length(key) between 1 and 1024)
);
-- For the story of one task: what it took, it took while it ran. Costs next to nothing on the way in.
create index effect_taken on onceward.effect using brin (taken_at) with (autosummarize = on);

create table onceward.machine (
  name text collate "C" not null,
  subject text collate "C" not null,
  state text collate "C" not null,
  version integer not null,
  since timestamptz not null,           -- when it entered this state
  timers text[] collate "C" not null default '{}', -- the tasks that move it if it stays, soonest first
  primary key (name, subject),
  constraint machine_subject_length check (octet_length(subject) between 1 and 512)
);

create table onceward.move (
  name text collate "C" not null,
  subject text collate "C" not null,
  version integer not null,
  move text collate "C" not null,
  from_state text collate "C" not null,
  to_state text collate "C" not null,
  cause text,
  moved_at timestamptz not null,
  primary key (name, subject, version)
);
create index move_moved on onceward.move using brin (moved_at) with (autosummarize = on);

-- What is worth telling of a task beyond its row: failures, takeovers, conflicts, and whatever a
-- person caused (then with `actor`). A task that just succeeds writes nothing here.
create table onceward.log (
  scope text collate "C" not null,
  key text collate "C" not null,
  logged_at timestamptz not null,
  what text collate "C" not null,
  attempt integer,
  actor text,
  detail text
);
create index log_of_task on onceward.log (key, scope, logged_at);
create index log_by_time on onceward.log (logged_at);

-- How often an event was delivered again, for people who look. Counted in memory and written seldom, so that a storm
-- of duplicates stays cheap; a crash loses a few.
create table onceward.delivery (
  scope text collate "C" not null,
  key text collate "C" not null,
  again integer not null,
  last_at timestamptz not null,
  primary key (key, scope)
);

-- Who changed something by hand, when and why: replays, cancels, prunes, answers to unknown outcomes, signals that
-- somebody sent. Apart from the log, which goes with its task; nothing deletes from here but a prune that was told to.
create table onceward.audit (
  changed_at timestamptz not null,
  actor text not null,
  what text collate "C" not null,
  scope text collate "C",               -- null where it was no single task
  key text collate "C",
  reason text,
  detail text                           -- what it came to, such as a count
);
create index audit_by_time on onceward.audit (changed_at);
create index audit_of_task on onceward.audit (key, scope, changed_at) where key is not null;

-- The latest time at which a rate-limited lane may start its next task, as if all came evenly.
create table onceward.rate (
  lane text collate "C" primary key,
  next_at timestamptz not null
);

create table onceward.worker (
  id text collate "C" primary key,
  lanes text[] not null,
  started_at timestamptz not null,
  seen_at timestamptz not null
);

-- Where a backfill or another long walk stands.
create table onceward.cursor (
  name text collate "C" primary key,
  value text not null,
  moved_at timestamptz not null
);
