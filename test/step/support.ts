/** What the tests of steps share: attempts that are run one at a time, and ones that die. */
import { afterAll, beforeAll } from "vitest";
import pg from "pg";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import { runSteps } from "../../src/step/run.ts";
import type { Step } from "../../src/step/step.ts";
import { Engine } from "../../src/worker/engine.ts";
import type { Lane, Ran } from "../../src/worker/lane.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith, type Which } from "../support/postgres.ts";

export const scope = "job/steps";

const connections = 8;

type Fn = (step: Step<pg.PoolClient>, task: ClaimedTask) => unknown;

export interface StepBench {
  readonly engine: Engine<pg.PoolClient>;
  readonly database: Database<pg.PoolClient>;
  readonly clock: Clock;
  /** Connections of the pool. */
  readonly pool: number;
  /** Runs one attempt to its end, also before the task is due. The task is recorded at its first one. */
  attempt(key: string, fn: Fn): Promise<Ran>;
  /** The same, only where the task is due. Undefined where it is not. */
  dueAttempt(key: string, fn: Fn): Promise<Ran | undefined>;
  /** Runs an attempt whose process dies where it calls `die`, and lets the lease run out. */
  dies(key: string, fn: (step: Step<pg.PoolClient>, die: () => Promise<never>) => unknown): Promise<void>;
  steps(key: string): Promise<{ name: string; state: string; attempt: number; value: string | null }[]>;
  look(key: string): Promise<Record<string, unknown>>;
}

export function describeSteps(
  name: string,
  body: (bench: () => StepBench) => void,
  which: Which = "newest",
): void {
  describeWith(which, name, (fresh) => {
    let pool: pg.Pool;
    let bench: StepBench;
    beforeAll(async () => {
      pool = new pg.Pool({ connectionString: fresh().url, max: connections });
      bench = await openBench(pgDatabase(pool));
    });
    afterAll(() => pool?.end());
    body(() => bench);
  });
}

async function openBench(database: Database<pg.PoolClient>): Promise<StepBench> {
  const engine = new Engine(database);
  await engine.ready();
  const clock = await fakeClock(database);
  const { verbs, leaseMs, worker } = engine.ledger;

  async function claim(key: string, early: boolean): Promise<ClaimedTask | undefined> {
    await engine.ledger.record({ scope, key });
    const claimed = await verbs.claim({ scope, key }, { leaseMs, worker, early });
    return claimed.outcome === "claimed" ? claimed.task : undefined;
  }
  const laneOf = (of: Engine<pg.PoolClient>, fn: Fn): Lane => ({
    name: scope,
    run: (task, run) => runSteps(of, task, run, (tools) => fn(tools({}).step, task)),
  });
  async function dueAttempt(key: string, fn: Fn, early = false): Promise<Ran | undefined> {
    const task = await claim(key, early);
    return task && engine.runHere(laneOf(engine, fn), task);
  }
  const look = async (key: string) => (await verbs.look({ scope, key })) as Record<string, unknown>;
  return {
    engine,
    database,
    clock,
    pool: connections,
    dueAttempt: (key, fn) => dueAttempt(key, fn),
    async attempt(key, fn) {
      const ran = await dueAttempt(key, fn, true);
      if (!ran) throw new Error(`no attempt of ${key} can be made now`);
      return ran;
    },
    async dies(key, fn) {
      const task = await claim(key, true);
      if (!task) throw new Error(`no attempt of ${key} can be made now`);
      const doomed = new Engine(database);
      await new Promise<void>((resolve, reject) => {
        const die = (): Promise<never> => {
          resolve();
          return new Promise(() => {});
        };
        const ran = doomed.runHere(
          laneOf(doomed, (step) => fn(step, die)),
          task,
        );
        void ran.then((how) => reject(new Error(`it did not die: ${JSON.stringify(how)}`)));
      });
      await clock.advance(leaseMs + 1);
    },
    look,
    steps: async (key) => (await look(key))["steps"] as never,
  };
}
