import type { OncewardError } from "../errors.ts";
import { lazily } from "../lazily.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { LaneLimit } from "../ledger/lane.ts";

/** How long to wait before the next attempt: doubled each time from `baseMs` up to `capMs`, with jitter. */
export interface Backoff {
  readonly baseMs?: number | undefined;
  readonly capMs?: number | undefined;
}

/** What runs the tasks of one source, job, or kind of action: the scope of that name and everything below it. */
export interface Lane {
  readonly name: string;
  /** Runs one attempt. Whatever it throws fails the attempt. */
  run(task: ClaimedTask, run: Run): Promise<Finish>;
  /** At most so many at once in this process. */
  readonly concurrency?: number | undefined;
  /** Limits across all processes. */
  readonly limit?: LaneLimit | undefined;
  /** Left out: the ledger's own backoff. */
  readonly backoff?: Backoff | undefined;
  /** An attempt that takes longer has failed, even if its lease was renewed. */
  readonly deadlineMs?: number | undefined;
  /** Where tasks of one lane differ in the last two: what holds for this one. */
  settings?(task: ClaimedTask): Pick<Lane, "backoff" | "deadlineMs">;
  /** Called when a worker starts and every half minute after: records what is due by itself, such as a schedule's next tick. */
  tend?(ledger: Ledger): Promise<void>;
}

/** What an attempt can use while it runs. */
export interface Run {
  readonly ledger: Ledger;
  /** Aborts when the claim is lost, the deadline has passed, or the process stops. */
  readonly signal: AbortSignal;
  /** The same as the signal's, without making one. */
  throwIfAborted(): void;
  /** Whoever runs as one with others has a signal in common: cheaper than one of each, and one of these. */
  abortAlso(shared: AbortController): void;
  /**
   * Makes sure that the claim is still ours; throws `claim_lost` where it is not. Costs nothing unless the
   * process was paused or the database away for a good part of the lease. Ask before calling the world
   * outside: a process that was stopped and goes on knows nothing yet of who took over.
   */
  confirm(): Promise<void>;
  /** Waits for this without its time counting against the deadline. */
  uncounted<T>(wait: Promise<T>): Promise<T>;
  /** In a dry run: asked instead of calling the world outside, for the error to stop with. */
  readonly dryRun?: { stopAt(step: string, key: string): OncewardError } | undefined;
}

/** Adds the signal to what a function of the user is given; made when somebody looks at it. */
export const withSignal = lazily<Run, Pick<Run, "signal">>({ signal: (run) => run.signal });

/** How an attempt ended well. */
export type Finish =
  | { readonly finish: "complete"; /** JSON */ readonly result?: string | undefined }
  /** Its own transaction has completed it already. */
  | { readonly finish: "committed"; readonly result?: string | undefined }
  /** It sleeps or waits; this is no failure. */
  | {
      readonly finish: "defer";
      readonly until: { readonly delayMs?: number | "forever"; readonly at?: Date; readonly signal?: string };
    };

/** How an attempt ended, for whoever started it. */
export type Ran =
  | { readonly outcome: "done"; readonly result?: string | undefined }
  | { readonly outcome: "waiting" }
  | { readonly outcome: "failed"; readonly error: unknown; readonly state: "waiting" | "dead" | "unknown" }
  /** Another attempt has taken over, or the ledger could not be told; nothing of this one counts. */
  | { readonly outcome: "lost"; readonly error?: unknown };

/** The lane that runs a scope: the longest name that is the scope or ends before a '/' in it. */
export function laneOf(lanes: ReadonlyMap<string, Lane>, scope: string): Lane | undefined {
  for (let name = scope; ; name = name.slice(0, name.lastIndexOf("/"))) {
    const lane = lanes.get(name);
    if (lane) return lane;
    if (!name.includes("/")) return undefined;
  }
}

/** The name of a scope's lane where the lane itself is not known here: all of a job's scope, the first part of others. */
export function laneName(scope: string): string {
  return scope.startsWith("job/") ? scope : (scope.split("/", 1)[0] ?? scope);
}
