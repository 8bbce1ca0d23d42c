/** Prisma: handlers get its interactive transaction. */
import { bridge, CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database } from "./database.ts";
import { driverDatabase } from "./driver-database.ts";
import { asQueryable } from "./queryable.ts";

/** A PrismaClient of Postgres, as far as we use it; `Tx` is its `Prisma.TransactionClient`. */
export interface PrismaLike<Tx> {
  $transaction<T>(
    work: (tx: Tx) => Promise<T>,
    options?: { maxWait?: number; timeout?: number; isolationLevel?: "ReadCommitted" },
  ): Promise<T>;
}

export interface PrismaOptions {
  /**
   * How long a transaction, and so a handler, may take in ms. Prisma rolls it back then, after 5 s unless told;
   * a handler that waits for a lock takes longer than that. Default 60 000, the length of a lease.
   */
  readonly timeoutMs?: number;
  /**
   * The `pg.Pool` that you gave to Prisma's adapter, if it was one: what the ledger does outside of transactions then
   * goes straight to it, and no more handlers run at once than it has connections for. Otherwise set `connectionTimeoutMillis` in the adapter: it waits for ever by default.
   */
  readonly client?: unknown;
  /** How long to wait for a connection before `pool_exhausted`, in ms. Default 5000. */
  readonly connectionTimeoutMs?: number;
}

/** A database through your own PrismaClient, which stays yours to disconnect. */
export function prismaDatabase<Tx>(
  prisma: PrismaLike<Tx>,
  { timeoutMs = 60_000, client, connectionTimeoutMs = CONNECTION_TIMEOUT_MS }: PrismaOptions = {},
): Database<Tx> {
  const driver = driverDatabase(client, connectionTimeoutMs);
  return {
    ...bridge<Tx>({
      name: "prisma",
      outside: driver ?? asQueryable(prisma),
      begin: (work) =>
        prisma.$transaction(work, {
          maxWait: connectionTimeoutMs,
          timeout: timeoutMs,
          isolationLevel: "ReadCommitted",
        }),
      connectionTimeoutMs,
    }),
    single: false,
    connections: driver?.connections,
    close: async () => {},
  };
}
