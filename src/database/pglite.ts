/** PGlite: Postgres in this process, with one session for everybody. */
import { bridge } from "./bridge.ts";
import type { Database } from "./database.ts";
import { asQueryable } from "./queryable.ts";
import { guardSession, type Session } from "./session.ts";

/** A PGlite instance, as far as we use it; `Tx` is its Transaction. */
export interface PGliteLike<Tx> extends Session<Tx> {
  listen(channel: string, onNotify: (payload: string) => void): Promise<() => Promise<void>>;
}

/**
 * A database through your own PGlite instance, which stays yours to close. Using the instance itself inside
 * one of its open transactions would wait for ever; from now on that throws `database_nested`.
 */
export function pgliteDatabase<Tx>(db: PGliteLike<Tx>): Database<Tx> {
  guardSession(db);
  return {
    ...bridge<Tx>({
      name: "pglite",
      outside: asQueryable(db),
      begin: (work) => db.transaction(work),
    }),
    single: true,
    listen: (channel, onNotify) => db.listen(`"${channel.replaceAll('"', '""')}"`, onNotify),
    close: async () => {},
  };
}
