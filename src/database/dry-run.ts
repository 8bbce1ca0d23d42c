/**
 * A transaction that takes in all that somebody does through Onceward, and is rolled back: statements, transactions of
 * their own (as savepoints), and the verbs of the ledger. It follows the async context, so that it also reaches what
 * a handler calls by way of modules that know nothing of it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";
import type { Database, Param, Queryable, TransactionOptions } from "./database.ts";
import { aborted, sqlStateOf } from "./failure.ts";
import { whileOpen } from "./while-open.ts";

/** A verb of the ledger that was called, with what it answered. */
export interface Heard {
  readonly verb: string;
  readonly args: readonly unknown[];
  readonly answer: unknown;
}

const inside = new AsyncLocalStorage<DryTransaction>();

/**
 * The dry run that the caller is part of; undefined in ordinary life. Throws once it is over: what a handler forgot to
 * await must not reach the real database then.
 */
export function currentDryRun(): DryTransaction | undefined {
  const dry = inside.getStore();
  if (dry?.closed) throw over();
  return dry;
}

function over(): OncewardError {
  return new OncewardError(
    "dry_run",
    "This belongs to a dry run that is over, so that it is not done. Await it.",
  );
}

/**
 * For so long after its end a dry run keeps its code from connecting, in ms: what a handler forgot to await has come by
 * then. Not for ever, since a client that was first made in a dry run belongs to the application, and connects anew.
 */
const guardedAfterMs = 10_000;

/** The dry run whose code must not open connections, where the caller is part of one. */
export function guardedDryRun(): DryTransaction | undefined {
  const dry = inside.getStore();
  return dry?.guarded && dry.sinceClosedMs < guardedAfterMs ? dry : undefined;
}

/** What all levels of one dry run share. */
interface Shared {
  readonly tx: unknown;
  /** By the clock of this process. */
  closedAt: number | undefined;
  savepoints: number;
  readonly refused: string[];
}

export class DryTransaction {
  readonly queryable: Queryable;
  /** What was called and not undone. */
  heard: Heard[] = [];
  /** Its code must not open connections. */
  guarded: boolean;
  readonly #shared: Shared;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(queryable: Queryable, shared: Shared, guarded: boolean) {
    // Without `last`: nothing is ever committed here.
    const { takesTexts, jsonAsText } = queryable;
    this.queryable = {
      query: (text, params) => queryable.query(text, params),
      ...(takesTexts && { takesTexts }),
      ...(jsonAsText && { jsonAsText }),
    };
    this.#shared = shared;
    this.guarded = guarded;
  }

  get closed(): boolean {
    return this.#shared.closedAt !== undefined;
  }

  /** Zero while it is open. */
  get sinceClosedMs(): number {
    const { closedAt } = this.#shared;
    return closedAt === undefined ? 0 : performance.now() - closedAt;
  }

  /** From here on its statements throw. */
  close(): void {
    this.#shared.closedAt ??= performance.now();
  }

  /** Whom its code wanted to connect to. */
  get refused(): string[] {
    return this.#shared.refused;
  }

  hear(heard: Heard): void {
    this.heard.push(heard);
  }

  refuse(what: string): never {
    throw new OncewardError("dry_run", `A dry run does not ${what}.`);
  }

  /** A transaction within this one: a savepoint. Those of one level take turns, since there is one session for all. */
  transaction<Tx, T>(work: (tx: Tx, ledger: Queryable) => Promise<T>): Promise<T> {
    const done = this.#turn.then(() => this.#savepoint(work));
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #savepoint<Tx, T>(work: (tx: Tx, ledger: Queryable) => Promise<T>): Promise<T> {
    // Never released: Postgres keeps no list of the released ones, and what they wrote is to be found again.
    const name = `onceward_${++this.#shared.savepoints}`;
    await this.queryable.query(`savepoint ${name}`);
    const inner = new DryTransaction(this.queryable, this.#shared, true);
    try {
      const result = await inside.run(inner, () => work(this.#shared.tx as Tx, this.queryable));
      // An error that was swallowed shows here, as it would at the commit.
      await this.queryable.query("select 1");
      this.heard.push(...inner.heard);
      return result;
    } catch (error) {
      if (!this.closed) await this.queryable.query(`rollback to savepoint ${name}`);
      throw sqlStateOf(error) === "25P02" ? aborted(error) : error;
    }
  }
}

/** Thrown to end a transaction without a trace. */
class RolledBack extends Error {}

/** Runs `work` in a transaction that is rolled back, whatever happens, and returns what it returned. */
export async function dryTransaction<Tx, T>(
  database: Database<Tx>,
  work: (dry: DryTransaction) => Promise<T>,
): Promise<T> {
  let result: { readonly value: T } | undefined;
  try {
    await database.transaction(async (tx, queryable) => {
      const shared: Shared = {
        tx: whileOpen(tx, () => (shared.closedAt === undefined ? undefined : over())),
        closedAt: undefined,
        savepoints: 0,
        refused: [],
      };
      const dry = new DryTransaction(queryable, shared, false);
      try {
        result = { value: await inside.run(dry, () => work(dry)) };
      } finally {
        dry.close();
      }
      throw new RolledBack();
    });
  } catch (error) {
    if (!(error instanceof RolledBack)) throw error;
  }
  return (result as { readonly value: T }).value;
}

/** The same database, except for who is part of a dry run. */
export function dryRunnable<Tx>(database: Database<Tx>): Database<Tx> {
  const runner = (): Queryable => currentDryRun()?.queryable ?? database;
  const runnable = Object.assign(Object.create(database) as Database<Tx>, {
    query: (text: string, params?: readonly Param[]) => runner().query(text, params),
    transaction<T>(
      work: (tx: Tx, ledger: Queryable) => Promise<T>,
      options?: TransactionOptions,
    ): Promise<T> {
      const dry = currentDryRun();
      return dry ? dry.transaction(work) : database.transaction(work, options);
    },
  });
  // A statement is written for who runs it.
  return Object.defineProperties(runnable, {
    takesTexts: { get: () => runner().takesTexts },
    jsonAsText: { get: () => runner().jsonAsText },
  });
}
