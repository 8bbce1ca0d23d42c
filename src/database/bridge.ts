/** What the adapters of libraries with their own transactions (all but `pg`) have in common. */
import { OncewardError } from "../errors.ts";
import type { Database, Queryable } from "./database.ts";
import { aborted, asDatabaseError, asDatabaseErrorOfWork, exhausted, sqlStateOf } from "./failure.ts";
import { asQueryable } from "./queryable.ts";

export interface Bridge<Tx> {
  readonly name: string;
  /** What runs statements outside of transactions. */
  readonly outside: Queryable;
  /** The library's own way to run a function in a transaction. */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** True where COMMIT may be answered by ROLLBACK without a word: then the server is asked afterwards. */
  readonly confirmsCommit?: boolean;
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
  confirmsCommit = false,
  connectionTimeoutMs,
}: Bridge<Tx>): Pick<Database<Tx>, "name" | "query" | "transaction" | "takesTexts" | "jsonAsText"> {
  const transaction: Database<Tx>["transaction"] = async (work) => {
    let late = false;
    let failure: { error: unknown } | undefined;
    let written: unknown; // the transaction's id, once it has written something
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
        const { rows } = await ledger.query(confirmsCommit ? TRANSACTION_ID : "select 1");
        written = rows[0]?.["id"];
        return result;
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
    try {
      const result = await Promise.race([running, timeout]);
      if (typeof written === "string") await confirmCommit(outside, written);
      return result;
    } catch (error) {
      throw failure ? asTransactionError(failure.error, error) : asDatabaseError(error);
    } finally {
      clearTimeout(timer);
    }
  };

  return {
    name,
    query: (text, params) => outside.query(text, params),
    ...(outside.takesTexts && { takesTexts: true }),
    ...(outside.jsonAsText && { jsonAsText: true }),
    transaction,
  };
}

/** Null where nothing was written, and so nothing can be lost. */
const TRANSACTION_ID = "select pg_current_xact_id_if_assigned()::text as id";

async function confirmCommit(outside: Queryable, id: string): Promise<void> {
  const { rows } = await outside.query("select pg_xact_status(($1::text)::xid8) as status", [id]);
  if (rows[0]?.["status"] === "committed") return;
  throw new OncewardError(
    "transaction_aborted",
    "Postgres answered COMMIT with ROLLBACK. Behind a pooler in transaction mode postgres.js needs `prepare: false`: " +
      "it prepares its COMMIT, which fails in a session that does not know it, and takes the ROLLBACK for success.",
  );
}

/**
 * What to throw when the work threw `error` and the transaction ended with `end`. What the work threw is the
 * caller's and stays as it is, unless it tells of the database; or undoing it failed too: the connection is gone.
 */
function asTransactionError(error: unknown, end: unknown): unknown {
  if (sqlStateOf(error) === "25P02") return aborted(end);
  return error === end ? asDatabaseErrorOfWork(error) : asDatabaseError(error);
}
