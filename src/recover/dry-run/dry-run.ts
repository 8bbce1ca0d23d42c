/** What a replay would do, without doing it: the task runs in a transaction that is rolled back. */
import { dryTransaction, type DryTransaction } from "../../database/dry-run.ts";
import { milliseconds } from "../../duration.ts";
import { messageOf, OncewardError } from "../../errors.ts";
import type { TaskIdentity } from "../../ledger/task.ts";
import type { Engine } from "../../worker/engine.ts";
import type { Finish, Run } from "../../worker/lane.ts";
import { callsOf, type Call, type Part } from "./calls.ts";
import { refuseConnections } from "./connections.ts";
import { diff, type TableChange } from "./diff.ts";
import { begin, type Counted, type Look, seeAfter, seeBefore } from "./see.ts";

export interface DryRunOptions {
  /** As if a task that is done were replayed as a new generation. */
  readonly again?: boolean | undefined;
  /** Show values of columns and inputs of jobs: they can be personal data. Left out: keys and names of columns. */
  readonly values?: boolean | undefined;
  /** It ends after so long, so that nobody waits for what it holds. Milliseconds, or text. Default "10 seconds". */
  readonly limit?: number | string | undefined;
  /** Tables above so many bytes are counted and not looked at. Default 256 MiB, which takes about a second. */
  readonly maxTableBytes?: number | undefined;
}

/**
 * done     its handler or job would come to its end
 * failed   it would fail, with this reason
 * stops    a job would go on with a step that calls the world outside; the dry run does not
 * waits    a job would sleep or wait for a signal; or the task is not the first of its serial group
 * nothing  a replay would leave it alone
 */
export type DryOutcome = "done" | "failed" | "stops" | "waits" | "nothing";

/** One handler's or job's run. */
export interface DryRan extends TaskIdentity {
  readonly outcome: DryOutcome;
  readonly reason?: string | undefined;
}

export interface DryRunReport extends DryRan {
  readonly type: string | null;
  /** Where an event has several handlers: each of them. */
  readonly handlers: readonly DryRan[];
  readonly tables: readonly TableChange[];
  readonly calls: readonly Call[];
  /** What was drawn from these is gone: the one thing that Postgres does not roll back. */
  readonly sequences: readonly string[];
}

const defaultLimit = "10 seconds";
const defaultTableBytes = 256 * 1024 * 1024;
/** Nobody reads more, and the process has to hold them. */
const maxRows = 1_000;
/** How long it waits for a lock: what live traffic holds is let go within milliseconds. */
const lockMs = 2_000;
const savepoint = "onceward_dry_run";
const ofOne = "onceward_dry_run_one";
const ofCheck = "onceward_dry_run_check";

/** Why a replay leaves a task alone. */
const untouched: Readonly<Record<string, string>> = {
  done: "it is done: a replay would leave it alone, unless it is asked to run again",
  running: "it is running at this moment: a replay would leave it alone",
  pruned: "its payload has been pruned, so that it cannot run",
  missing: "there is no such task",
};

/** Runs a task as a replay would, and says what that would change and whom it would call. Nothing of it is kept. */
export async function dryRun(
  engine: Engine,
  task: TaskIdentity,
  options: DryRunOptions = {},
): Promise<DryRunReport> {
  await engine.ready();
  refuseConnections();
  const limitMs = milliseconds(options.limit ?? defaultLimit);
  return dryTransaction(engine.database, async (dry) => {
    const late = limit(dry, limitMs);
    const work = rehearse(engine, dry, task, { ...options, limitMs });
    return Promise.race([work, late.passed]).finally(() => {
      late.clear();
      work.catch(() => undefined);
    });
  });
}

async function rehearse(
  engine: Engine,
  dry: DryTransaction,
  task: TaskIdentity,
  {
    again = false,
    values = false,
    maxTableBytes = defaultTableBytes,
    limitMs,
  }: DryRunOptions & { limitMs: number },
): Promise<DryRunReport> {
  const { verbs } = engine.ledger;
  const counted = await begin(verbs, { lockMs: Math.min(lockMs, limitMs), statementMs: limitMs });
  await dry.queryable.query(`savepoint ${savepoint}`);
  const nothing = { handlers: [], tables: [], calls: [], sequences: [] };
  const type = ((await verbs.look(task))?.["type"] ?? null) as string | null;

  const [replayed] = await verbs.replay([task], { again });
  const why = untouched[replayed?.outcome ?? "missing"];
  if (why !== undefined) return { ...identity(task), type, outcome: "nothing", reason: why, ...nothing };

  const { ran, calls, parts } = await runOne(engine, dry, task, values);
  const handlers: DryRan[] = [];
  for (const part of uniqueParts(parts)) {
    const one = await runOne(engine, dry, part, values);
    handlers.push(one.ran);
    calls.push(...one.calls);
  }
  for (const to of dry.refused) calls.push({ call: "connection", to });

  const seen = await see(engine, dry, { values, maxBytes: maxTableBytes, maxRows }, counted);
  return { ...gravest(ran, handlers), type, handlers, calls, ...seen };
}

/** Claims a task and runs it, as a worker would. */
async function runOne(
  engine: Engine,
  dry: DryTransaction,
  task: TaskIdentity,
  values: boolean,
): Promise<{ ran: DryRan; calls: Call[]; parts: Part[] }> {
  const { ledger } = engine;
  const claimed = await ledger.verbs.claim(task, { leaseMs: ledger.leaseMs, worker: ledger.worker });
  const lane = engine.laneOf(task.scope);
  const idle = (outcome: DryOutcome, reason: string) => ({
    ran: { ...identity(task), outcome, reason },
    calls: [],
    parts: [],
  });
  if (!("task" in claimed)) {
    const why = untouched[claimed.outcome];
    return why ? idle("nothing", why) : idle("waits", "another task of its serial group comes first");
  }
  if (!lane) return idle("failed", `nothing here runs ${task.scope}: is this the right configuration?`);
  dry.heard = [];
  // Handlers may ask their sender before their transaction begins; the function of a job has no such moment.
  dry.guarded = task.scope.startsWith("job/");
  const steps: Call[] = [];
  let stopped: OncewardError | undefined;
  const run: Run = {
    ledger,
    signal: new AbortController().signal,
    throwIfAborted: () => {},
    abortAlso: () => {},
    confirm: async () => {},
    uncounted: (wait) => wait,
    dryRun: {
      stopAt(name, key) {
        steps.push({ call: "step", name, key });
        return (stopped ??= new OncewardError("dry_run", `it would go on with the step "${name}"`));
      },
    },
  };
  await dry.queryable.query(`savepoint ${ofOne}`);
  const [outcome, reason] = await lane
    .run(claimed.task, run)
    .then(async (finish) => {
      await checkDeferred(dry);
      return finished(finish);
    })
    .catch(async (error: unknown) => {
      if (dry.closed) throw error;
      if (error === stopped) return ["stops", messageOf(error)] as const;
      await dry.queryable.query(`rollback to savepoint ${ofOne}`);
      dry.heard = [];
      return ["failed", messageOf(error)] as const;
    });
  dry.guarded = false;
  const { calls, parts } = callsOf(dry.heard, values);
  return { ran: { ...identity(task), outcome, reason }, calls: [...calls, ...steps], parts };
}

/** What Postgres checks at the commit. Undone, so that whoever comes next may defer as well. */
async function checkDeferred({ queryable }: DryTransaction): Promise<void> {
  await queryable.query(`savepoint ${ofCheck}`);
  await queryable.query("set constraints all immediate");
  await queryable.query(`rollback to savepoint ${ofCheck}`);
}

function finished(finish: Finish): [DryOutcome, string | undefined] {
  if (finish.finish !== "defer") return ["done", skippedBecause(finish.result)];
  const { at, delayMs, signal } = finish.until;
  if (signal !== undefined) return ["waits", `it would wait for the signal ${signal}`];
  if (at) return ["waits", `it would sleep until ${at.toISOString()}`];
  return ["waits", `it would sleep for ${Math.round(Number(delayMs) / 1_000)} s`];
}

/** A handler that was not called since something newer was applied says so in its result. */
function skippedBecause(result: string | undefined): string | undefined {
  return result?.startsWith('{"skipped"') ? (JSON.parse(result) as { skipped: string }).skipped : undefined;
}

/** What was written, compared with how it was. Afterwards nothing of the run is there any more. */
async function see(
  engine: Engine,
  dry: DryTransaction,
  look: Look,
  counted: Counted,
): Promise<Pick<DryRunReport, "tables" | "sequences">> {
  const { verbs } = engine.ledger;
  const after = await seeAfter(verbs, look, counted);
  await dry.queryable.query(`rollback to savepoint ${savepoint}`);
  // Where nothing was changed or deleted there is no earlier version to look for.
  const older = after.tables.filter(
    ({ updates, deletes, inserts, unseen }) =>
      unseen === undefined && (updates + deletes > 0 || inserts === 0),
  );
  const before = await seeBefore(verbs, older, after.xids, look);
  return { tables: diff(after, before, look), sequences: after.sequences };
}

/** What counts is what a person should look at first. */
function gravest(event: DryRan, handlers: readonly DryRan[]): DryRan {
  const order: readonly DryOutcome[] = ["failed", "waits", "stops", "done", "nothing"];
  const worst = [event, ...handlers].toSorted(
    (a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome),
  )[0]!;
  return { ...event, outcome: worst.outcome, reason: worst.reason };
}

function uniqueParts(parts: readonly Part[]): Part[] {
  return [...new Map(parts.map((part) => [`${part.scope} ${part.key}`, part])).values()];
}

function identity({ scope, key }: TaskIdentity): TaskIdentity {
  return { scope, key };
}

function limit(dry: DryTransaction, ms: number): { passed: Promise<never>; clear(): void } {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      dry.close();
      reject(
        new OncewardError(
          "deadline_passed",
          `The dry run took longer than ${ms} ms, and was rolled back. Give it a longer limit.`,
        ),
      );
    }, ms);
  });
  return { passed, clear: () => clearTimeout(timer) };
}
