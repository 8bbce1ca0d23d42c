/**
 * The embedded Postgres (PGlite) in a folder, for whoever has no server. One process, one session.
 *
 * Durability: what was acknowledged survives the death of the process at any moment, a kill -9 included: each commit
 * has been written to the operating system when it is acknowledged. It need not survive a power cut, since PGlite
 * does not wait for the disk (`fsync=off`). For that, and for more than one process, use a Postgres server.
 */
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { OncewardError } from "../errors.ts";
import type { Database } from "./database.ts";
import { loadPglite } from "./driver.ts";
import { asPgClient, parsersOfPg } from "./embedded-client.ts";
import { dataFolder } from "./embedded-folder.ts";
import { keepUp } from "./embedded-upkeep.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import type { PgClient } from "./pg.ts";
import { pgliteDatabase } from "./pglite.ts";

export interface EmbeddedOptions {
  /** Where it lives. Default ./.onceward/db. */
  readonly folder?: string;
  /** Gets one line when something takes a while. Default: to standard error. */
  readonly log?: (line: string) => void;
}

/**
 * Opens on first use. Handlers get as `tx` what answers as a client of `pg` does, so that they can move to a server
 * as they are. A folder that another process has open is refused with
 * `database_locked`.
 */
export function embeddedDatabase({
  folder = "./.onceward/db",
  log = console.error,
}: EmbeddedOptions = {}): Database<PgClient> {
  let opening: Promise<Open> | undefined;
  let closed = false;
  const opened = async (): Promise<Database<PgClient>> => {
    if (closed) throw new OncewardError("database_unavailable", "The embedded database has been closed.");
    opening ??= open(folder, log).catch((error: unknown) => {
      opening = undefined; // What was in the way may be gone at the next try.
      throw error;
    });
    return (await opening).database;
  };
  return {
    name: "embedded",
    single: true,
    query: async (text, params) => (await opened()).query(text, params),
    transaction: async (work) => (await opened()).transaction(work),
    listen: async (channel, onNotify) => (await opened()).listen!(channel, onNotify),
    async close() {
      closed = true;
      await (await opening)?.close();
      opening = undefined;
    },
  };
}

/** Files of the log of changes are used again up to here; the default keeps up to 1 GB of them. */
const LOG_SIZE = ["-c", "max_wal_size=128MB", "-c", "min_wal_size=32MB"];

interface Open {
  readonly database: Database<PgClient>;
  close(): Promise<void>;
}

async function open(folder: string, log: (line: string) => void): Promise<Open> {
  const PGlite = await loadPglite();
  const root = resolve(folder);
  mkdirSync(root, { recursive: true, mode: 0o700 }); // PGlite makes its files readable by everybody.
  const lock: FolderLock = await lockFolder(root, { shownAs: folder, log });
  try {
    const dataDir = await dataFolder(root, { shownAs: folder, log });
    const db = await PGlite.create({
      dataDir,
      parsers: parsersOfPg,
      // Older versions have no list to add to.
      ...(PGlite.defaultStartParams && { startParams: [...PGlite.defaultStartParams, ...LOG_SIZE] }),
    }).catch((error: unknown) => {
      throw new OncewardError(
        "database_unavailable",
        `The embedded Postgres in ${folder} does not start. Was it made by another version of @electric-sql/pglite?`,
        { cause: error },
      );
    });
    const stopUpkeep = keepUp(db);
    const database = pgliteDatabase(db);
    return {
      database: {
        ...database,
        transaction: (work) => database.transaction((tx, ledger) => work(asPgClient(tx), ledger)),
      },
      async close() {
        stopUpkeep();
        await db.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}
