import { OncewardError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Claim } from "../ledger/task.ts";

interface Held {
  readonly claim: Claim;
  readonly controller: AbortController;
  /** When this process last knew that the claim is its own, by its own steady clock. */
  since: number;
}

/** A third of the lease: two renewals may fail before a claim runs out. */
const renewalsPerLease = 3;
/** Bounds one statement's time. */
const maxBatch = 500;

/**
 * The claims that this process holds, kept alive together: one statement renews them all. A claim
 * that was taken over, or that can no longer be known to be ours, aborts its run.
 */
export class Leases {
  readonly #ledger: Ledger;
  readonly #held = new Map<string, Held>();
  #timer: NodeJS.Timeout | undefined;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Keeps a claim from now until `release`. */
  hold(claim: Claim, controller: AbortController): void {
    this.#held.set(nameOf(claim), { claim, controller, since: performance.now() });
    this.#timer ??= setInterval(() => void this.#renew(), this.#ledger.leaseMs / renewalsPerLease);
  }

  release(claim: Claim): void {
    this.#held.delete(nameOf(claim));
    if (this.#held.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #renew(): Promise<void> {
    // What was claimed a moment ago has most of its lease before it.
    const youngest = performance.now() - this.#ledger.leaseMs / renewalsPerLease / 2;
    const due = [...this.#held.values()].filter((held) => held.since < youngest);
    for (let i = 0; i < due.length; i += maxBatch) await this.#renewBatch(due.slice(i, i + maxBatch));
  }

  async #renewBatch(batch: readonly Held[]): Promise<void> {
    const asked = performance.now();
    try {
      const answers = await this.#ledger.verbs.renew(batch.map((held) => held.claim), this.#ledger.leaseMs);
      batch.forEach((held, i) => {
        if (answers[i] === "renewed") held.since = asked;
        else abort(held, "another worker has taken it over, or it was cancelled");
      });
    } catch {
      // The database is away. Past the lease somebody else may run it: this run must not go on.
      const oldest = performance.now() - this.#ledger.leaseMs;
      for (const held of batch) if (held.since < oldest) abort(held, "its lease could not be renewed in time");
    }
  }
}

function abort(held: Held, why: string): void {
  held.controller.abort(new OncewardError("claim_lost", `This attempt has lost its claim: ${why}.`));
}

function nameOf(claim: Claim): string {
  return JSON.stringify([claim.scope, claim.key, claim.attempt]);
}
