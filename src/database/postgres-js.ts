/** postgres.js (`postgres`): the `sql` that the application has already. */
import { OncewardError } from "../errors.ts";
import { bridge, CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database } from "./database.ts";
import { exhausted } from "./failure.ts";
import { guardBegin } from "./postgres-js-begin.ts";
import { asQueryable, queryable } from "./queryable.ts";

/** A `sql` of postgres.js, as far as we use it; `Tx` is its TransactionSql. */
export interface PostgresJs<Tx> {
  begin<T>(options: string, work: (sql: Tx) => Promise<T>): Promise<unknown>;
  reserve(): Promise<{ release(): void }>;
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onListen?: () => void,
  ): Promise<{ unlisten(): Promise<void> }>;
}

export interface PostgresJsOptions {
  /** How long to wait for a connection before `pool_exhausted`, in ms. Default 5000. */
  readonly connectionTimeoutMs?: number;
}

/** A database through your own `sql` of postgres.js, which stays yours to end. */
export function postgresJsDatabase<Tx>(
  sql: PostgresJs<Tx>,
  { connectionTimeoutMs = CONNECTION_TIMEOUT_MS }: PostgresJsOptions = {},
): Database<Tx> {
  guardBegin(sql);
  return {
    ...bridge<Tx>({
      name: "postgres.js",
      outside: queryable(async (text, params) => {
        const reserved = await reserveWithin(sql, connectionTimeoutMs);
        try {
          const result = await asQueryable(reserved).query(text, params);
          reserved.release();
          return result;
        } catch (error) {
          // A lost connection has left the pool already; releasing it would put it back.
          if (!(error instanceof OncewardError)) reserved.release();
          throw error;
        }
      }),
      begin: <T>(work: (tx: Tx) => Promise<T>) =>
        sql.begin("isolation level read committed", work) as Promise<T>,
      connectionTimeoutMs,
    }),
    single: false,
    async listen(channel, onNotify) {
      let again = false;
      const { unlisten } = await sql.listen(channel, onNotify, () => {
        // It comes back by itself; whatever was notified meanwhile is lost: look once.
        if (again) onNotify("");
        again = true;
      });
      return unlisten;
    },
    close: async () => {},
  };
}

/** postgres.js itself waits for ever. */
async function reserveWithin(sql: PostgresJs<unknown>, timeoutMs: number): Promise<{ release(): void }> {
  const reserving = sql.reserve();
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  const reserved = await Promise.race([reserving, timeout]).finally(() => clearTimeout(timer));
  if (reserved) return reserved;
  reserving.then(
    (late) => late.release(),
    () => {},
  );
  throw exhausted();
}
