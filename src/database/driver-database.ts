/** The adapter for an object of one of the three drivers, recognised by its shape. */
import { OncewardError } from "../errors.ts";
import type { Database } from "./database.ts";
import { type PgClient, pgDatabase, type PgPool } from "./pg.ts";
import { pgliteDatabase, type PGliteLike } from "./pglite.ts";
import { type PostgresJs, postgresJsDatabase } from "./postgres-js.ts";

/** Undefined for what is none of them. Throws `config_invalid` for a client of `pg` that is no pool. */
export function driverDatabase(client: unknown, connectionTimeoutMs?: number): Database | undefined {
  const options = connectionTimeoutMs === undefined ? {} : { connectionTimeoutMs };
  if (typeof client === "function") {
    const isSql = methods(client, "begin", "unsafe", "typed", "listen");
    return isSql ? postgresJsDatabase(client as unknown as PostgresJs<unknown>, options) : undefined;
  }
  if (methods(client, "query", "exec", "transaction", "onNotification")) {
    return pgliteDatabase(client as PGliteLike<unknown>);
  }
  if (methods(client, "query", "getTypeParser")) throw singleClient();
  // `totalCount` is what a pool has and a single client has not.
  if (methods(client, "connect", "query", "end", "on") && "totalCount" in (client as object)) {
    return pgDatabase(client as PgPool<PgClient>, options);
  }
  return undefined;
}

/** All transactions would be one: what a handler rolls back takes along what others were told is recorded. */
function singleClient(): OncewardError {
  return new OncewardError(
    "config_invalid",
    "This is a single client of pg, or stands on one: give its pool (a pg.Pool), since tasks run beside each other, " +
      "each in a transaction of its own.",
  );
}

function methods(value: unknown, ...names: string[]): boolean {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === "function");
}
