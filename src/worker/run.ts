import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Claim, ClaimedTask, Retry } from "../ledger/task.ts";
import type { Backoff, Finish, Lane, Ran } from "./lane.ts";
import type { Leases } from "./leases.ts";

/** How long the ledger is tried again when the database is away at the end of a run. */
const retryPausesMs = [50, 250, 1_000, 2_500, 5_000, 10_000];

export interface RunOptions {
  readonly ledger: Ledger;
  readonly leases: Leases;
  /** Aborts the run from outside: the process stops. */
  readonly controller?: AbortController;
}

/**
 * Runs one attempt of a claimed task to its end and tells the ledger. The one way in which anything
 * runs: by a worker, inside a request, or for the caller of an action. Never rejects.
 */
export async function runTask(lane: Lane, task: ClaimedTask, options: RunOptions): Promise<Ran> {
  const { ledger, leases, controller = new AbortController() } = options;
  leases.hold(task, controller);
  const deadline = setDeadline(lane.deadlineMs, controller);
  try {
    let finish: Finish;
    try {
      const run = { ledger, signal: controller.signal };
      finish = await Promise.race([lane.run(task, run), aborted(controller.signal)]);
    } catch (error) {
      if (isLost(error)) return { outcome: "lost", error };
      const state = await tell(() => ledger.fail({ ...task, reason: messageOf(error), retry: retryAfter(error, task, lane.backoff) }));
      return state === "lost" ? { outcome: "lost", error } : { outcome: "failed", error, state };
    }
    return await settle(ledger, task, finish);
  } catch (error) {
    // The ledger could not be told. The claim runs out, and the task comes back by itself.
    return { outcome: "lost", error };
  } finally {
    clearTimeout(deadline);
    leases.release(task);
  }
}

async function settle(ledger: Ledger, task: Claim, finish: Finish): Promise<Ran> {
  if (finish.finish === "committed") return { outcome: "done", result: finish.result };
  if (finish.finish === "defer") {
    const state = await tell(() => ledger.verbs.defer(task, finish.until));
    return { outcome: state };
  }
  const { result } = finish;
  const state = await tell(() => ledger.complete({ scope: task.scope, key: task.key, attempt: task.attempt, result }));
  return state === "done" ? { outcome: "done", result } : { outcome: "lost" };
}

/** Tells the ledger, again after a pause where the database is away for a moment. */
async function tell<T>(say: () => Promise<T>): Promise<T> {
  for (const pause of retryPausesMs) {
    try {
      return await say();
    } catch (error) {
      if (!(error instanceof OncewardError) || !error.retry) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return say();
}

function retryAfter(error: unknown, task: ClaimedTask, backoff: Backoff | undefined): Retry {
  if (error instanceof OncewardError && error.code === "outcome_unknown") return "unknown";
  if (error instanceof Fatal) return "never";
  if (!backoff) return "backoff";
  // The ledger's own defaults, where only one of the two is given (see fail in sql/004_finish.sql).
  const { baseMs = 2_000, capMs = 4 * 60 * 60 * 1_000 } = backoff;
  const delay = Math.min(baseMs * 2 ** Math.min(task.tries - 1, 20), capMs);
  return { afterMs: Math.round(delay * (0.5 + Math.random() / 2)) };
}

function isLost(error: unknown): boolean {
  return error instanceof OncewardError && error.code === "claim_lost";
}

function setDeadline(ms: number | undefined, controller: AbortController): NodeJS.Timeout | undefined {
  if (ms === undefined) return undefined;
  return setTimeout(() => {
    controller.abort(new OncewardError("deadline_passed", `The attempt took longer than its deadline of ${ms} ms.`));
  }, ms);
}

/** Rejects when the signal fires: a run that does not listen to it must not hold its place for ever. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}
