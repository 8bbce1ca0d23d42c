import { asQueryable } from "../database/queryable.ts";
import type { NewTask, Recorded, TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import { jobNamed } from "./define.ts";
import type { Enqueue, Enqueued, EnqueueOptions, Job, JobReference, WithinTransaction } from "./job.ts";

/**
 * Has a job run: alone, or inside your own open transaction (`tx`), with which it commits or vanishes.
 * Alone it starts at once where a worker of this process has room.
 */
export function enqueue<Input>(
  engine: Engine,
  job: Job<Input>,
  input: NoInfer<Input>,
  options?: EnqueueOptions & WithinTransaction,
): Promise<Enqueued>;
export function enqueue(
  engine: Engine,
  job: JobReference,
  input?: unknown,
  options?: EnqueueOptions & WithinTransaction,
): Promise<Enqueued>;
export async function enqueue(
  engine: Engine,
  job: Job | JobReference,
  input?: unknown,
  options: EnqueueOptions & WithinTransaction = {},
): Promise<Enqueued> {
  return record(engine, await asJob(engine, job).task(input, options), options.tx);
}

/** `enqueue` for the function of a job: what a retry enqueues again is the same task. */
export function enqueuer(engine: Engine, parent: TaskIdentity & { readonly generation: number }): Enqueue {
  return async (job: Job | JobReference, input?: unknown, options: EnqueueOptions & WithinTransaction = {}) =>
    record(engine, await asJob(engine, job).task(input, { ...options, parent }), options.tx);
}

async function record(engine: Engine, task: NewTask, tx: unknown): Promise<Enqueued> {
  const recorded = tx === undefined ? await engine.offer(task) : await recordWithin(engine, task, tx);
  const { scope, key } = task;
  // What was known and due is claimed as well; then it comes with what was recorded first.
  const isKnown = recorded.outcome === "duplicate" || (recorded.outcome === "claimed" && recorded.task);
  return { outcome: isKnown ? "duplicate" : "enqueued", scope, key };
}

async function recordWithin(engine: Engine, task: NewTask, tx: unknown): Promise<Recorded> {
  // One session for everybody allows no statement beside an open transaction, such as those that migrate.
  if (!engine.database.single) await engine.ready();
  const verbs = engine.ledger.within(asQueryable(tx));
  const [recorded] = (await verbs.record([task])) as [Recorded];
  // The word goes out when the transaction commits, and not at all if it does not.
  if (recorded.outcome === "recorded" && !task.delayMs && !task.dueAt) await verbs.wake([task.scope]);
  return recorded;
}

function asJob(engine: Engine, job: Job | JobReference): Job {
  return job.task ? job : jobNamed(engine, job.name);
}
