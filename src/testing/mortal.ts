/** Lets the process die, as far as its database can tell: at the commit of one of its transactions. */
import type { Database, Queryable, TransactionOptions } from "../database/database.ts";
import { whileOpen } from "../database/while-open.ts";

/** What happens to one transaction of a trial. */
export type Mishap =
  /** Its work is undone, and the process is gone. */
  | "dies before the commit"
  /** Its work is committed, and the process is gone: nobody hears of it. */
  | "dies after the commit"
  /** Its work is undone, and the process lives: the attempt has failed. */
  | "fails before the commit"
  /** Before it begins, its claim runs out and somebody else claims the task. */
  | "stalls before it begins";

class Mishappened extends Error {}

/**
 * Stands between an application and its database while `work` runs. It takes the place of the methods of the very
 * database that the application uses, since that one is in many hands already.
 */
export class Mortal<Tx> {
  readonly #database: Database<Tx>;
  readonly #plan: { readonly mishap: Mishap; readonly at: number } | undefined;
  readonly #onStall: () => Promise<void>;
  #transactions = 0;
  #dead = false;
  #usedLate = false;

  constructor(
    database: Database<Tx>,
    plan?: { readonly mishap: Mishap; readonly at: number },
    onStall: () => Promise<void> = async () => {},
  ) {
    this.#database = database;
    this.#plan = plan;
    this.#onStall = onStall;
  }

  /** How many transactions were begun. */
  get transactions(): number {
    return this.#transactions;
  }

  /** Whether a transaction was used after the function that got it had ended: not all of it was awaited. */
  get usedLate(): boolean {
    return this.#usedLate;
  }

  /** Runs `work` on the database that may fail, until it ends; then the database is as it was. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const database = this.#database as { -readonly [Name in keyof Database<Tx>]: Database<Tx>[Name] };
    const { query, transaction } = database;
    database.query = async (text, params) => {
      this.#checkAlive();
      return query.call(database, text, params);
    };
    database.transaction = (inside, options) =>
      this.#transaction(transaction.bind(database), inside, options);
    try {
      return await work();
    } finally {
      database.query = query;
      database.transaction = transaction;
    }
  }

  async #transaction<T>(
    begin: Database<Tx>["transaction"],
    work: (tx: Tx, ledger: Queryable) => Promise<T>,
    options?: TransactionOptions,
  ): Promise<T> {
    this.#checkAlive();
    const mishap = ++this.#transactions === this.#plan?.at ? this.#plan.mishap : undefined;
    if (mishap === "stalls before it begins") await this.#onStall();
    let ended = false;
    // Only noted: what then becomes of it is the driver's.
    const note = (): undefined => void (this.#usedLate ||= ended);
    const result = await begin(async (tx, ledger) => {
      const done = await work(whileOpen(tx, note), ledger).finally(() => (ended = true));
      if (mishap === "dies before the commit") throw this.#die();
      if (mishap === "fails before the commit") throw new Mishappened("this attempt was made to fail");
      return done;
    }, options);
    if (mishap === "dies after the commit") throw this.#die();
    return result;
  }

  #die(): Error {
    this.#dead = true;
    return new Mishappened("the process has died");
  }

  #checkAlive(): void {
    if (this.#dead) throw new Mishappened("the process has died");
  }
}
