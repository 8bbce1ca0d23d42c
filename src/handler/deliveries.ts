import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";

/** Long enough that a storm of duplicates is one statement. */
const everyMs = 3_000;
/** What comes beyond in that time is not counted: this is for people who look, and a stranger must not fill memory. */
const mostKeys = 1_000;

/** Counts what is delivered again, and writes it down now and then. What a crash loses is a few of a count. */
export class Deliveries {
  readonly #engine: Engine;
  readonly #counts = new Map<string, TaskIdentity & { again: number }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  again({ scope, key }: TaskIdentity): void {
    const name = `${scope} ${key}`;
    const known = this.#counts.get(name);
    if (known) known.again++;
    else if (this.#counts.size < mostKeys) this.#counts.set(name, { scope, key, again: 1 });
    this.#timer ??= setTimeout(() => void this.flush(), everyMs).unref();
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const counts = [...this.#counts.values()];
    this.#counts.clear();
    if (counts.length === 0) return;
    try {
      await this.#engine.ledger.verbs.call("delivered_again", [
        counts.map(({ scope }) => scope),
        counts.map(({ key }) => key),
        counts.map(({ again }) => String(again)),
      ]);
    } catch {
      // The database is away, or has been closed: nothing depends on this.
    }
  }
}
