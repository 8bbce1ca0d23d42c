/** postgres.js (`postgres`): the `sql` that the application has already. */
import { bridge, CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database } from "./database.ts";
import { guardBegin } from "./postgres-js-begin.ts";
import { runPostgresJs, type SqlOfPostgresJs } from "./postgres-js-query.ts";
import { queryable } from "./queryable.ts";

/** A `sql` of postgres.js, as far as we use it; `Tx` is its TransactionSql. */
export interface PostgresJs<Tx> {
  begin<T>(options: string, work: (sql: Tx) => Promise<T>): Promise<unknown>;
  unsafe(text: string, params?: never[]): unknown;
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
  const sender = sql as unknown as SqlOfPostgresJs;
  return {
    ...bridge<Tx>({
      name: "postgres.js",
      outside: queryable((text, params) => runPostgresJs(sender, text, params, connectionTimeoutMs)),
      begin: <T>(work: (tx: Tx) => Promise<T>) =>
        sql.begin("isolation level read committed", work) as Promise<T>,
      confirmsCommit: commitMayLie(sql),
      connectionTimeoutMs,
    }),
    single: false,
    connections: connectionsOf(sql),
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

function connectionsOf(sql: object): number | undefined {
  const { options } = sql as { options?: { max?: unknown } };
  return typeof options?.max === "number" ? options.max : undefined;
}

/**
 * Behind a pooler in transaction mode, unless `prepare` is off: half of the transactions were rolled back and told as
 * committed (207 of 400). Whether there is a pooler cannot be seen from here, so each commit is confirmed: one more
 * round trip, which `prepare: false` saves.
 */
export function commitMayLie(sql: object): boolean {
  const { options } = sql as { options?: { prepare?: unknown } };
  return options?.prepare !== false;
}
