import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Claim } from "../ledger/task.ts";
import { instant, Lease, since } from "./lease.ts";
import { Line } from "./line.ts";

/** How often to look, in parts of a lease. */
const looksPerLease = 6;
/** When to renew, in the same parts: three renewals may fail before a claim runs out. */
const renewAfterLooks = 2;
/** Bounds one statement's time. */
const maxBatch = 500;

/**
 * The claims that this process holds, kept alive together: one statement renews them all. A claim that
 * was taken over aborts its run; so does one that could not be renewed, a little before its lease ends,
 * so that a run is over by the time the next one of its task begins.
 */
export class Leases {
  readonly #ledger: Ledger;
  readonly #lookMs: number;
  readonly #held = new Line<Lease>();
  /** Timers would otherwise carry along the async context of whoever came first: its request, its transaction. */
  readonly #outside = AsyncLocalStorage.snapshot();
  #timer: NodeJS.Timeout | undefined;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#lookMs = ledger.leaseMs / looksPerLease;
  }

  /** Keeps a claim from now until `release`. `asked`: when the claim was asked for; the lease began later. */
  hold(claim: Claim, asked = instant()): Lease {
    const lease = new Lease(claim, asked);
    this.#held.add(lease);
    this.#timer ??= this.#outside(() => setInterval(() => this.#look(), this.#lookMs));
    return lease;
  }

  release(lease: Lease): void {
    this.#held.delete(lease);
    if (!this.#held.isEmpty) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Resolves if the claim is still ours; asks the ledger where that is not certain. */
  async confirm(lease: Lease): Promise<void> {
    if (since(lease.confirmed) >= this.#ledger.leaseMs - 2 * this.#lookMs) await this.#renew([lease]);
    if (lease.aborted) throw lease.aborted.error;
  }

  #look(): void {
    const due: Lease[] = [];
    for (const lease of this.#held) {
      const age = since(lease.confirmed);
      if (age < renewAfterLooks * this.#lookMs) continue;
      // After a pause of the whole process nobody has asked yet: ask before giving up. One session for everybody
      // (PGlite) means that nobody else can take over, and that renewals wait for open transactions.
      const hopeless = age > this.#ledger.leaseMs - this.#lookMs && lease.unanswered > 0;
      if (hopeless && !this.#ledger.database.single)
        lease.abort(lost("its lease could not be renewed in time"));
      else due.push(lease);
    }
    for (let i = 0; i < due.length; i += maxBatch) {
      // The database is away. The next look tries again, or gives up.
      this.#renew(due.slice(i, i + maxBatch)).catch(() => undefined);
    }
  }

  async #renew(batch: readonly Lease[]): Promise<void> {
    const asked = instant();
    for (const lease of batch) lease.unanswered++;
    const claims = batch.map((lease) => lease.claim);
    const answers = await this.#ledger.verbs.renew(claims, this.#ledger.leaseMs);
    batch.forEach((lease, i) => {
      if (answers[i] === "renewed") {
        lease.confirmed = asked;
        lease.unanswered = 0;
      } else if (!lease.ended) {
        lease.abort(lost("another attempt has taken over, or the task was cancelled"));
      }
    });
  }
}

export function lost(why: string): OncewardError {
  return new OncewardError("claim_lost", `This attempt has lost its claim: ${why}.`);
}
