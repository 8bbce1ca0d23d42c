/** What the adapters of libraries with their own transactions (all but `pg`) have in common. */
import type { Database, Queryable } from "./database.ts";
import { aborted, asDatabaseError, asDatabaseErrorOfWork, exhausted, sqlStateOf } from "./failure.ts";
import { asQueryable } from "./queryable.ts";

export interface Bridge<Tx> {
  readonly name: string;
  /** What runs statements outside of transactions. */
  readonly outside: Queryable;
  /** The library's own way to run a function in a transaction. */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** How long to wait for a connection. Left out: for ever. */
  readonly connectionTimeoutMs?: number | undefined;
}

/** Long enough for a burst, short enough that a sender of webhooks still gets its 503. */
export const CONNECTION_TIMEOUT_MS = 5_000;

/** `query` and `transaction` over a library's own transactions. */
export function bridge<Tx>({
  name,
  outside,
  begin,
  connectionTimeoutMs,
}: Bridge<Tx>): Pick<Database<Tx>, "name" | "query" | "transaction" | "encodeTextArray"> {
  const transaction: Database<Tx>["transaction"] = async (work) => {
    let late = false;
    let failure: { error: unknown } | undefined;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_, reject) => {
      if (connectionTimeoutMs === undefined) return;
      timer = setTimeout(() => {
        late = true;
        reject(exhausted());
      }, connectionTimeoutMs);
    });
    const running = begin(async (tx) => {
      clearTimeout(timer);
      if (late) throw exhausted(); // Nobody waits any more: give the connection back.
      try {
        const ledger = asQueryable(tx);
        const result = await work(tx, ledger);
        // COMMIT of an aborted transaction is a silent ROLLBACK in most libraries; this statement is not.
        await ledger.query("select 1");
        return result;
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
    try {
      return await Promise.race([running, timeout]);
    } catch (error) {
      throw failure ? asTransactionError(failure.error, error) : asDatabaseError(error);
    } finally {
      clearTimeout(timer);
    }
  };

  return {
    name,
    query: (text, params) => outside.query(text, params),
    ...(outside.encodeTextArray && { encodeTextArray: outside.encodeTextArray }),
    transaction,
  };
}

/**
 * What to throw when the work threw `error` and the transaction ended with `end`. What the work threw is the
 * caller's and stays as it is, unless it tells of the database; or undoing it failed too: the connection is gone.
 */
function asTransactionError(error: unknown, end: unknown): unknown {
  if (sqlStateOf(error) === "25P02") return aborted(end);
  return error === end ? asDatabaseErrorOfWork(error) : asDatabaseError(error);
}
