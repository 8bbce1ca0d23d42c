/** PGlite: Postgres in this process, with one session for everybody. */
import { bridge } from "./bridge.ts";
import type { Database } from "./database.ts";
import { asQueryable } from "./queryable.ts";
import { guardSession, type Session } from "./session.ts";

/** A PGlite instance, as far as we use it; `Tx` is its Transaction. */
export interface PGliteLike<Tx> extends Session<Tx> {
  onNotification(onNotify: (channel: string, payload: string) => void): () => void;
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
    async listen(channel, onNotify) {
      // Not its `listen`, which misreads quoted names. Its UNLISTEN would silence other listeners of the channel.
      await db.exec(`listen "${channel.replaceAll('"', '""')}"`);
      const stop = db.onNotification((from, payload) => from === channel && onNotify(payload));
      return async () => stop();
    },
    close: async () => {},
  };
}
