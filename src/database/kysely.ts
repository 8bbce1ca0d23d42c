/** Kysely: handlers get its Transaction. */
import { bridge, CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database } from "./database.ts";
import { driverDatabase } from "./driver-database.ts";
import { asQueryable } from "./queryable.ts";

/** A Kysely of Postgres, as far as we use it; `Tx` is its `Transaction<DB>`. */
export interface KyselyLike<Tx> {
  transaction(): {
    setIsolationLevel(level: "read committed"): { execute<T>(work: (tx: Tx) => Promise<T>): Promise<T> };
  };
}

export interface KyselyOptions {
  /**
   * The `pg.Pool` that you gave to Kysely's dialect. Kysely listens to no errors of its connections and does not
   * let us reach them: without this, a connection that is cut inside a transaction ends the process. Nor does it say
   * how many there are: without this, handlers run as if there were ten.
   */
  readonly client?: unknown;
  /** How long to wait for a connection before `pool_exhausted`, in ms. Default 5000. */
  readonly connectionTimeoutMs?: number;
}

/** A database through your own Kysely, which stays yours to destroy. */
export function kyselyDatabase<Tx>(
  db: KyselyLike<Tx>,
  { client, connectionTimeoutMs = CONNECTION_TIMEOUT_MS }: KyselyOptions = {},
): Database<Tx> {
  const driver = driverDatabase(client, connectionTimeoutMs);
  return {
    ...bridge<Tx>({
      name: "kysely",
      outside: driver ?? asQueryable(db),
      begin: (work) => db.transaction().setIsolationLevel("read committed").execute(work),
      connectionTimeoutMs: driver?.single ? undefined : connectionTimeoutMs,
    }),
    single: driver?.single ?? false,
    connections: driver?.connections,
    ...(driver?.listen && { listen: driver.listen }),
    close: async () => {},
  };
}
