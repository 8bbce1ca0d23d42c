import { OncewardError } from "../errors.ts";
import { freshlyClaimed } from "../ledger/ledger.ts";
import type { ClaimedTask, NewTask, TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import type { Lane, Ran } from "../worker/lane.ts";
import { instant, type Instant } from "../worker/lease.ts";
import { Room } from "../worker/room.ts";
import { outcomeOfState, type Outcome } from "./outcome.ts";
import { timely } from "./timely.ts";

/** How soon, in ms, to look again at what another process runs: most handlers take less than a second. */
const firstPauseMs = 25;
const longestPauseMs = 400;
/**
 * For so long a failure answers for the duplicates of its event, too: they came together with it, and each of
 * them would use up an attempt.
 */
const failureHoldsMs = 1_000;

export interface InlineParts {
  readonly engine: Engine;
  readonly lane: Lane;
  /** How many may run at once for their senders. */
  readonly places: number;
  /** How long a sender waits for what somebody else runs, or for a place. */
  readonly waitMs: number;
}

/** How a task ended for the sender who waits for it; `result` where it ran here and now. */
export interface Settled {
  readonly outcome: Outcome;
  readonly result?: string | undefined;
}

/**
 * Runs tasks while their senders wait. The claim decides who runs; the others wait a little for the outcome,
 * and hold no connection meanwhile.
 */
export class Inline {
  readonly #engine: Engine;
  readonly #lane: Lane;
  readonly #room: Room;
  readonly #waitMs: number;
  /** What runs here for a sender, or has failed a moment ago. */
  readonly #running = new Map<string, Promise<Settled>>();

  constructor({ engine, lane, places, waitMs }: InlineParts) {
    this.#engine = engine;
    this.#lane = lane;
    this.#room = new Room(places);
    this.#waitMs = waitMs;
  }

  /** Records a task, and runs it unless somebody else does. `onClaimed` is told which run is for this sender. */
  async settle(task: NewTask, onClaimed?: (claimed: ClaimedTask) => void): Promise<Settled> {
    const { ledger } = this.#engine;
    const entered = this.#room.enter();
    let left = !entered;
    try {
      // Without a place it is recorded all the same: safe first, and run when there is one.
      const asked = instant();
      const recorded = await timely(entered ? ledger.recordAndClaim(task) : ledger.record(task));
      if (recorded.outcome === "claimed") {
        left = true;
        return await this.#run(recorded.task ?? freshlyClaimed(task, recorded.attempt), asked, onClaimed);
      }
      if (recorded.outcome === "conflict") return { outcome: "conflict" };
      const known = recorded.state && outcomeOfState(recorded.state);
      if (known) return { outcome: known };
    } finally {
      if (!left) this.#room.leave();
    }
    return this.settleKnown(task, onClaimed);
  }

  /**
   * The same for what is recorded already. A sender who tries again need not wait for the backoff: what waits
   * for its next attempt is claimed early, once. `missing` is the outcome of what was never recorded.
   */
  async settleKnown(
    { scope, key }: TaskIdentity,
    onClaimed?: (claimed: ClaimedTask) => void,
    missing: Outcome = "busy",
  ): Promise<Settled> {
    const { ledger } = this.#engine;
    const end = performance.now() + this.#waitMs;
    const name = nameOf({ scope, key });
    let early = true;
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      const here = this.#running.get(name);
      if (here) return within(here, end - performance.now());
      if (!(await this.#room.enterWithin(end - performance.now()))) return { outcome: "busy" };
      let left = false;
      try {
        // Somebody before us in the line may have begun it; then a claim would only keep the others waiting.
        if (this.#running.has(name)) continue;
        const { leaseMs, worker } = ledger;
        const asked = instant();
        const claimed = await timely(ledger.verbs.claim({ scope, key }, { leaseMs, worker, early }));
        if ("task" in claimed) {
          left = true;
          return await this.#run(claimed.task, asked, onClaimed);
        }
        if (claimed.outcome === "missing") return { outcome: missing };
        const known = outcomeOfState(claimed.state);
        if (known) return { outcome: known };
      } finally {
        if (!left) this.#room.leave();
      }
      early = false;
      const rest = end - performance.now();
      if (rest <= 0) return { outcome: "busy" };
      await sleep(Math.min(pause, rest));
    }
  }

  /** Gives the place back when it ends. */
  async #run(
    task: ClaimedTask,
    asked: Instant,
    onClaimed?: (claimed: ClaimedTask) => void,
  ): Promise<Settled> {
    onClaimed?.(task);
    const name = nameOf(task);
    const running = this.#engine
      .runHere(this.#lane, task, { asked, told: true })
      .then(settledOf)
      .finally(() => this.#room.leave());
    this.#running.set(name, running);
    const forget = (): void => {
      if (this.#running.get(name) === running) this.#running.delete(name);
    };
    let failed = false;
    try {
      const settled = await running;
      failed = settled.outcome === "failed";
      return settled;
    } finally {
      if (failed) setTimeout(forget, failureHoldsMs).unref();
      else forget();
    }
  }
}

function settledOf(ran: Ran): Settled {
  if (ran.outcome === "done") return { outcome: "done", result: ran.result };
  // The database went away under the handler, or before the ledger could be told: not the handler's fault.
  if ("error" in ran && ran.error instanceof OncewardError && ran.error.status === 503) throw ran.error;
  // Lost: another attempt has it.
  return { outcome: ran.outcome === "failed" ? "failed" : "busy" };
}

async function within(running: Promise<Settled>, ms: number): Promise<Settled> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Settled>((resolve) => {
    timer = setTimeout(resolve, ms, { outcome: "busy" });
  });
  const settled = await Promise.race([running, late]).finally(() => clearTimeout(timer));
  // It was done for another delivery, and this one is a duplicate of it.
  return settled.outcome === "done" ? { outcome: "duplicate" } : settled;
}

function nameOf({ scope, key }: TaskIdentity): string {
  return `${scope} ${key}`;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
