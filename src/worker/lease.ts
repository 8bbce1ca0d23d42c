import { OncewardError } from "../errors.ts";
import type { Claim } from "../ledger/task.ts";
import type { Standing } from "./line.ts";

/** A timer beyond 32 bits would fire at once; nothing here waits for 24 days. */
export const longestTimerMs = 2 ** 31 - 1;

/** Two clocks: the steady one stands still while the machine sleeps, the wall clock can be set. */
export interface Instant {
  readonly steady: number;
  readonly wall: number;
}

export function instant(): Instant {
  return { steady: performance.now(), wall: Date.now() };
}

/** Milliseconds since then, by the clock that says more: time that may have passed may have cost us the claim. */
export function since(then: Instant): number {
  return Math.max(performance.now() - then.steady, Date.now() - then.wall);
}

/** One claim that this process holds, and the run that must end with it. */
export class Lease implements Standing<Lease> {
  before: Lease | undefined;
  after: Lease | undefined;
  readonly claim: Claim;
  /** By the steady clock. */
  readonly heldAt = performance.now();
  /** When we last asked for the claim and were given it. */
  confirmed: Instant;
  /** Renewals that were sent since, and not yet granted. */
  unanswered = 0;
  /** The run's code has ended; what is left is to tell the ledger, which knows by itself who holds the claim. */
  ended = false;
  #reason: { readonly error: unknown } | undefined;
  #controller: AbortController | undefined;
  #shared: AbortController | undefined;
  #onAbort: ((error: unknown) => void) | undefined;

  constructor(claim: Claim, confirmed: Instant) {
    this.claim = claim;
    this.confirmed = confirmed;
  }

  /** Made when somebody looks at it: most runs do not, and an AbortController costs more than an empty job. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason.error);
    }
    return this.#controller.signal;
  }

  /** Why the run was ended from outside, where it was. */
  get aborted(): { readonly error: unknown } | undefined {
    return this.#reason;
  }

  /** True where the claim itself is gone, so that there is nothing left to tell. */
  get lost(): boolean {
    return this.#reason?.error instanceof OncewardError && this.#reason.error.code === "claim_lost";
  }

  abort(error: unknown): void {
    if (this.#reason) return;
    this.#reason = { error };
    this.#onAbort?.(error);
    this.#controller?.abort(error);
    this.#shared?.abort(error);
  }

  /** Aborts this one, too, which others share. */
  abortAlso(shared: AbortController): void {
    if (this.#reason) shared.abort(this.#reason.error);
    else this.#shared = shared;
  }

  /** Runs `work`, and stops waiting for it once aborted: a run that does not listen must not hold its place for ever. */
  guard<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#reason) {
        reject(this.#reason.error);
        return;
      }
      this.#onAbort = reject;
      work().then(resolve, reject);
    });
  }
}
