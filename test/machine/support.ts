/** What the tests of machines share: engines on the databases we promise, with a clock that tests move. */
import type { PGlite } from "@electric-sql/pglite";
import { afterAll, afterEach, beforeAll, beforeEach, describe } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import type { Job } from "../../src/job/job.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import { createOnce, type Once } from "../../src/once.ts";
import type { Engine, EngineOptions } from "../../src/worker/engine.ts";
import { type Lane, laneOf, type Ran } from "../../src/worker/lane.ts";
import { createPglite } from "../support/pglite.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith, type FreshDatabase, type Which } from "../support/postgres.ts";

export const day = 24 * 60 * 60 * 1000;

export interface Queries {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

/** One process's engine, and what a test needs around it. */
export class Bench {
  readonly once: Once<Queries>;
  readonly engine: Engine<Queries>;
  readonly database: Database<Queries>;
  /** Every attempt that ended in this process. */
  readonly ran: { task: ClaimedTask; ran: Ran }[] = [];
  readonly #lanes = new Map<string, Lane>();
  #clock: Clock | undefined;
  #onRan: (() => void) | undefined;

  constructor(database: Database<Queries>, options: EngineOptions = {}) {
    this.database = database;
    this.once = createOnce({
      ...options,
      database,
      onRan: (task, ran) => {
        this.ran.push({ task, ran });
        this.#onRan?.();
      },
    });
    this.engine = this.once.engine;
    const { engine } = this;
    const addLane = engine.addLane.bind(engine);
    engine.addLane = (lane) => {
      addLane(lane);
      this.#lanes.set(lane.name, lane);
    };
  }

  async rows(text: string, values: string[] = []): Promise<Record<string, unknown>[]> {
    return (await this.database.query(text, values)).rows;
  }

  async advance(ms: number): Promise<void> {
    await this.engine.ready();
    const clock = (this.#clock ??= await fakeClock(this.database));
    await clock.advance(ms);
  }

  /** Moves the time on, and lets the worker run all that is due until nothing is. */
  async pass(ms: number): Promise<void> {
    await this.advance(ms);
    await this.settle();
  }

  /** Lets the worker, and those of others, run all that is due until nothing is. */
  async settle(...others: Bench[]): Promise<void> {
    const benches = [this, ...others];
    for (;;) {
      // One of a group that is due may step aside without a run, so that there is nothing to await.
      const ended = new Promise<void>((resolve) => {
        for (const bench of benches) bench.#onRan = resolve;
        setTimeout(resolve, 100).unref();
      });
      const { unfinished } = await this.engine.ledger.verbs.stats();
      if (!unfinished.some(({ scope, due, running }) => laneOf(this.#lanes, scope) && due + running > 0))
        return;
      for (const { engine } of benches) engine.worker.wake();
      await ended;
    }
  }

  /** What runs a scope here, for tests that play a worker themselves. */
  lane(scope: string): Lane {
    const lane = this.#lanes.get(scope);
    if (!lane) throw new Error(`no lane ${scope}`);
    return lane;
  }

  /** The state of each task of a scope, by key. */
  async tasks(scope: string): Promise<Record<string, string>> {
    const rows = await this.rows("select key, state from onceward.task where scope = $1 order by key", [
      scope,
    ]);
    return Object.fromEntries(rows.map((row) => [row["key"], row["state"]])) as Record<string, string>;
  }

  async stop(): Promise<void> {
    await this.once.stop({ graceMs: 0 });
  }
}

/** The same tests on the newest Postgres, the oldest, and PGlite; each test gets an engine that nobody has started. */
export function describeOnEach(name: string, body: (bench: () => Bench) => void): void {
  describeOn("newest", name, body);
  describeOn("oldest", name, body);
  describe(`${name} on PGlite`, () => {
    let bench: Bench;
    let db: PGlite;
    beforeAll(async () => {
      db = await createPglite();
    });
    beforeEach(() => {
      bench = new Bench(pgliteDatabase(db));
    });
    afterEach(() => bench.stop());
    afterAll(() => db.close());
    body(() => bench);
  });
}

export function describeOn(
  which: Which,
  name: string,
  body: (bench: () => Bench, fresh: () => FreshDatabase) => void,
): void {
  describeWith(which, `${name} on the ${which} Postgres`, (fresh) => {
    let bench: Bench;
    beforeEach(() => {
      bench = new Bench(pgDatabase(fresh().url));
    });
    afterEach(() => bench?.stop());
    body(() => bench, fresh);
  });
}

let names = 0;
/** A name that no other test of this file uses. */
export const fresh = (word: string): string => `${word}${++names}`;

/** A job whose runs are kept in a list, made of nothing but a lane. */
export function listJob<Input>(engine: Engine<Queries>, name: string): { job: Job<Input>; inputs: Input[] } {
  const inputs: Input[] = [];
  const scope = `job/${name}`;
  engine.addLane({
    name: scope,
    run: (task) => {
      inputs.push(JSON.parse(String(task.body)) as Input);
      return Promise.resolve({ finish: "complete" });
    },
  });
  let tasks = 0;
  const job: Job<Input> = {
    name,
    scope,
    task: (input, options = {}) =>
      Promise.resolve({
        scope,
        key: options.key ?? `${process.pid}-${++tasks}`,
        body: JSON.stringify(input),
        ...(options.cause && { cause: options.cause }),
      }),
  };
  return { job, inputs };
}
