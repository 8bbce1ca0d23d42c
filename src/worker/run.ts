import { sqlStateOf } from "../database/failure.ts";
import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { ClaimedTask, Retry } from "../ledger/task.ts";
import type { Backoff, Finish, Lane, Ran, Run } from "./lane.ts";
import { longestTimerMs, type Lease } from "./lease.ts";
import type { Leases } from "./leases.ts";

/** How long the ledger is tried again when the database is away at the end of a run. */
const retryPausesMs = [50, 250, 1_000, 2_500, 5_000, 10_000];

export interface RunOptions {
  readonly ledger: Ledger;
  readonly leases: Leases;
  /** The claim, where it is held already. */
  readonly lease?: Lease | undefined;
  /** Aborts the run from outside. */
  readonly signal?: AbortSignal | undefined;
  /** Called with its time when the task's code has ended, before the ledger is told: its place is free for another. */
  readonly onEnded?: ((ms: number) => void) | undefined;
}

/**
 * Runs one attempt of a claimed task to its end and tells the ledger. The one way in which anything
 * runs: by a worker, inside a request, or for the caller of an action. Never rejects.
 */
export async function runTask(lane: Lane, task: ClaimedTask, options: RunOptions): Promise<Ran> {
  const { ledger, leases, signal } = options;
  const lease = options.lease ?? leases.hold(task);
  const abort = signal && (() => lease.abort(signal.reason));
  if (signal?.aborted) abort?.();
  else if (abort) signal.addEventListener("abort", abort);
  const began = performance.now();
  let settings: Pick<Lane, "backoff" | "deadlineMs"> = lane;
  let deadline: Deadline | undefined;
  const attempt = async (): Promise<Finish> => {
    if (lane.settings) settings = lane.settings(task);
    deadline = new Deadline(settings.deadlineMs, lease);
    return lane.run(task, new HeldRun(ledger, leases, lease, deadline));
  };
  try {
    const ended = await lease.guard(attempt).then(
      (finish) => ({ finish }),
      (error: unknown) => ({ error }),
    );
    deadline?.stop();
    lease.ended = true;
    options.onEnded?.(performance.now() - began);
    return await tellEnd({ ledger, backoff: settings.backoff, task, lease, ended });
  } catch (error) {
    // The ledger could not be told. The claim runs out, and the task comes back by itself.
    return { outcome: "lost", error };
  } finally {
    deadline?.stop();
    if (abort) signal.removeEventListener("abort", abort);
    leases.release(lease);
  }
}

/** A run under a lease. */
class HeldRun implements Run {
  readonly ledger: Ledger;
  readonly #leases: Leases;
  readonly #lease: Lease;
  readonly #deadline: Deadline;

  constructor(ledger: Ledger, leases: Leases, lease: Lease, deadline: Deadline) {
    this.ledger = ledger;
    this.#leases = leases;
    this.#lease = lease;
    this.#deadline = deadline;
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  throwIfAborted(): void {
    if (this.#lease.aborted) throw this.#lease.aborted.error;
  }

  abortAlso(shared: AbortController): void {
    this.#lease.abortAlso(shared);
  }

  confirm(): Promise<void> {
    return this.#leases.confirm(this.#lease);
  }

  uncounted<T>(wait: Promise<T>): Promise<T> {
    return this.#deadline.paused(wait);
  }
}

interface End {
  readonly ledger: Ledger;
  readonly backoff: Backoff | undefined;
  readonly task: ClaimedTask;
  readonly lease: Lease;
  readonly ended: { readonly finish: Finish } | { readonly error: unknown };
}

async function tellEnd({ ledger, backoff, task, lease, ended }: End): Promise<Ran> {
  const { scope, key, attempt, serial } = task;
  if ("error" in ended) {
    const { error } = ended;
    if (lease.lost) return { outcome: "lost", error };
    const failure = {
      scope,
      key,
      attempt,
      reason: messageOf(error),
      retry: retryAfter(error, task, backoff),
    };
    const state = await tell(lease, () => ledger.fail(failure));
    // What failed was the way back of the answer to its commit.
    if (state === "done") return { outcome: "done", result: await resultOf(ledger, task) };
    return state === "lost" ? { outcome: "lost", error } : { outcome: "failed", error, state };
  }
  const { finish } = ended;
  if (finish.finish === "committed") return { outcome: "done", result: finish.result };
  if (finish.finish === "defer")
    return { outcome: await tell(lease, () => ledger.verbs.defer(task, finish.until)) };
  const { result } = finish;
  const state = await tell(lease, () => ledger.complete({ scope, key, attempt, result, serial }));
  return state === "lost" ? { outcome: "lost" } : { outcome: "done", result };
}

async function resultOf(ledger: Ledger, task: ClaimedTask): Promise<string | undefined> {
  const known = await ledger.verbs.look(task);
  return (known?.["result"] as string | null | undefined) ?? undefined;
}

/** Tells the ledger, again after a pause where the database is away for a moment; no longer once the claim is given up. */
async function tell<T>(lease: Lease, say: () => Promise<T>): Promise<T> {
  for (const pause of retryPausesMs) {
    try {
      return await say();
    } catch (error) {
      if (!passes(error) || lease.lost) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return say();
}

/**
 * Whether it may go better in a moment: the database is away, or another transaction stood in the way (a deadlock, a lock
 * or a statement that took too long). What is told carries its attempt, so that it can be told again.
 */
function passes(error: unknown): boolean {
  if (error instanceof OncewardError) return error.retry;
  const state = sqlStateOf(error) ?? "";
  return state.startsWith("40") || state === "55P03" || state === "57014";
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

/** Ends the run that takes longer than so many ms; undefined: none does. */
class Deadline {
  readonly #ms: number | undefined;
  readonly #lease: Lease;
  #left: number;
  #since = 0;
  #waits = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number | undefined, lease: Lease) {
    this.#ms = ms !== undefined && ms <= longestTimerMs ? ms : undefined;
    this.#lease = lease;
    this.#left = this.#ms ?? 0;
    this.#start();
  }

  /** Waits may overlap: its time goes on when the last of them is over. */
  async paused<T>(wait: Promise<T>): Promise<T> {
    if (this.#ms === undefined) return wait;
    if (this.#waits++ === 0) {
      this.stop();
      this.#left -= performance.now() - this.#since;
    }
    try {
      return await wait;
    } finally {
      if (--this.#waits === 0) this.#start();
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #start(): void {
    const ms = this.#ms;
    // What it waited for may come when it is long over.
    if (ms === undefined || this.#lease.ended) return;
    this.#since = performance.now();
    this.#timer = setTimeout(() => {
      this.#lease.abort(
        new OncewardError("deadline_passed", `The attempt took longer than its deadline of ${ms} ms.`),
      );
    }, this.#left);
  }
}
