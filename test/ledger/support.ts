/** What the tests of the ledger share: ledgers on the databases we promise, with a clock that tests move. */
import type { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { afterAll, beforeAll, describe } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { Ledger, type LedgerOptions } from "../../src/ledger/ledger.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import type { ClaimedTask, NewTask } from "../../src/ledger/task.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { createPglite } from "../support/pglite.ts";
import { describeWith, type FreshDatabase, Unavailable, type Which } from "../support/postgres.ts";

export const minute = 60_000;

export interface Bench {
  readonly database: Database;
  readonly ledger: Ledger;
  readonly clock: Clock;
  /** Where another connection can be opened; empty for PGlite, which has one session. */
  readonly url: string;
  /** A ledger of another worker over the same database. */
  worker(name: string): Ledger;
}

/** A migrated ledger whose clock the test moves. */
export async function openBench(database: Database, url = "", options: LedgerOptions = {}): Promise<Bench> {
  const schema = options.schema === undefined ? {} : { schema: options.schema };
  await migrate(database, schema);
  return {
    database,
    url,
    clock: await fakeClock(database, options.schema),
    ledger: new Ledger(database, { worker: "w1", ...options }),
    worker: (name) => new Ledger(database, { ...options, worker: name }),
  };
}

/** A ledger on one of the shared servers, through a pool of `max` connections. */
export function describeOnServer(
  which: Which,
  name: string,
  body: (bench: () => Bench) => void,
  max = 20,
): void {
  describeWith(which, `${name} (${which} Postgres)`, (fresh) => {
    let bench: Bench;
    beforeAll(async () => {
      const url = urlOf(fresh);
      if (url === undefined) return;
      const pool = new pg.Pool({ connectionString: url, max });
      bench = await openBench({ ...pgDatabase(pool), close: () => pool.end() }, url);
    });
    afterAll(() => bench?.database.close());
    body(() => bench);
  });
}

let pglite: Promise<{ db: PGlite; bench: Bench }> | undefined;
afterAll(async () => (await pglite)?.db.close());

/** A ledger on PGlite; one for all tests of a file, since it takes seconds to start. */
export function describeOnPglite(name: string, body: (bench: () => Bench) => void): void {
  describe(`${name} (PGlite)`, () => {
    let bench: Bench;
    beforeAll(async () => {
      pglite ??= createPglite().then(async (db) => ({ db, bench: await openBench(pgliteDatabase(db)) }));
      bench = (await pglite).bench;
    });
    body(() => bench);
  });
}

/** The same tests on PGlite, the newest Postgres and the oldest. */
export function describeOnEach(name: string, body: (bench: () => Bench) => void): void {
  describeOnPglite(name, body);
  describeOnServer("newest", name, body);
  describeOnServer("oldest", name, body);
}

/** Undefined where there is no such server: then `describeWith` skips the tests and says why. */
export function urlOf(fresh: () => FreshDatabase): string | undefined {
  try {
    return fresh().url;
  } catch (error) {
    if (error instanceof Unavailable) return undefined;
    throw error;
  }
}

let lanes = 0;
/** A lane that no other test of this file uses. */
export function freshLane(): string {
  return `lane${++lanes}`;
}

/** Records tasks one after another, so that their order is theirs, and says what came of each. */
export async function recordAll(ledger: Ledger, tasks: readonly NewTask[]): Promise<string[]> {
  const outcomes: string[] = [];
  for (const task of tasks) outcomes.push((await ledger.record(task)).outcome);
  return outcomes;
}

/** Claims due tasks of one lane. */
export async function claimDue(ledger: Ledger, lane: string, max = 10): Promise<readonly ClaimedTask[]> {
  const { leaseMs, worker } = ledger;
  return (await ledger.verbs.claimDue([lane], { max, leaseMs, worker })).tasks;
}

export const keysOf = (tasks: readonly { readonly key: string }[]): string[] => tasks.map((task) => task.key);

/** Claims one task by name, and fails the test if somebody else has it. */
export async function claimOne(ledger: Ledger, scope: string, key: string): Promise<ClaimedTask> {
  const { leaseMs, worker } = ledger;
  const claimed = await ledger.verbs.claim({ scope, key }, { leaseMs, worker });
  if (claimed.outcome !== "claimed") throw new Error(`${scope} ${key} is ${claimed.outcome}, not claimed`);
  return (claimed as { task: ClaimedTask }).task;
}

/** One row of the ledger, as it stands. */
export async function row(bench: Bench, scope: string, key: string): Promise<Record<string, unknown> | null> {
  return bench.ledger.verbs.look({ scope, key });
}

export async function stateOf(bench: Bench, scope: string, key: string): Promise<unknown> {
  return (await row(bench, scope, key))?.["state"];
}
