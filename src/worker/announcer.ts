import { AsyncLocalStorage } from "node:async_hooks";
import type { Verbs } from "../ledger/verbs.ts";

/**
 * A commit that notifies waits for every other one, and for the disk: at most 200 a second from one process, and 25 while
 * work keeps coming. Workers that have found some look for more by themselves.
 */
const gapMs = 5;
const longestGapMs = 40;

/** Tells the workers of all processes that there is work. The first word goes out at once, a flood shares statements. */
export class Announcer {
  readonly #verbs: Verbs;
  readonly #lanes = new Set<string>();
  readonly #outside = AsyncLocalStorage.snapshot();
  #telling: Promise<void> | undefined;

  constructor(verbs: Verbs) {
    this.#verbs = verbs;
  }

  tell(lane: string): void {
    this.#lanes.add(lane);
    this.#telling ??= this.#outside(() => this.#tellAll());
  }

  /** Resolves once everything has been told, or could not be. */
  async settle(): Promise<void> {
    await this.#telling;
  }

  async #tellAll(): Promise<void> {
    let gap = gapMs;
    while (this.#lanes.size > 0) {
      const lanes = [...this.#lanes];
      this.#lanes.clear();
      // A lost word costs one poll.
      await this.#verbs.wake(lanes).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, gap));
      gap = Math.min(gap * 2, longestGapMs);
    }
    this.#telling = undefined;
  }
}
