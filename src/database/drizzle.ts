/** Drizzle over node-postgres, postgres.js or PGlite: handlers get Drizzle's own transaction. */
import { bridge, CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database } from "./database.ts";
import { driverDatabase } from "./driver-database.ts";
import { commitMayLie } from "./postgres-js.ts";
import { isPostgresJs } from "./postgres-js-query.ts";
import { asQueryable } from "./queryable.ts";
import { transactionEnded, whileOpen } from "./while-open.ts";

/** A Drizzle database of Postgres, as far as we use it; `Tx` is what its `transaction` hands out. */
export interface Drizzle<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: { isolationLevel?: "read committed" }): Promise<T>;
}

export interface DrizzleOptions {
  /** How long to wait for a connection before `pool_exhausted`, in ms. Default 5000. */
  readonly connectionTimeoutMs?: number;
}

/**
 * A database through your own Drizzle, which stays yours to end. Statements outside of transactions go to its driver.
 * Over `pg` give it a pool: a single client is refused.
 */
export function drizzleDatabase<Tx>(
  db: Drizzle<Tx>,
  { connectionTimeoutMs = CONNECTION_TIMEOUT_MS }: DrizzleOptions = {},
): Database<Tx> {
  const client = "$client" in db ? db.$client : undefined;
  const driver = driverDatabase(client, connectionTimeoutMs);
  return {
    ...bridge<Tx>({
      name: "drizzle",
      outside: driver ?? asQueryable(db),
      begin: (work) => db.transaction((tx) => lent(tx, work), { isolationLevel: "read committed" }),
      confirmsCommit: isPostgresJs(client) && commitMayLie(client),
      // With one session there is nothing to wait for but the transactions before this one.
      connectionTimeoutMs: driver?.single ? undefined : connectionTimeoutMs,
    }),
    single: driver?.single ?? false,
    connections: driver?.connections,
    ...(driver?.listen && { listen: driver.listen }),
    close: async () => {},
  };
}

/** Over `pg` Drizzle's transaction goes on sending after its end, on a connection that serves others by then. */
async function lent<Tx, T>(tx: Tx, work: (tx: Tx) => Promise<T>): Promise<T> {
  let open = true;
  try {
    return await work(whileOpen(tx, () => (open ? undefined : transactionEnded())));
  } finally {
    open = false;
  }
}
