/**
 * At most one process has a folder open: two of them would destroy the database in it.
 *
 * Locks are files with rising numbers, and the highest one counts. Who wants the folder and finds the highest lock
 * given up, or its holder dead, makes the next higher one; making a file that must not exist is atomic, so of any
 * number of starters one wins. A lock is never removed by its holder, only by a successor with a higher one: so a
 * starter that looked long ago and makes a number that is no longer the highest sees a higher one, and yields.
 */
import {
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { OncewardError } from "../errors.ts";
import { type Holder, isHolder, liveness, thisProcess } from "./process-identity.ts";

export interface FolderLock {
  release(): void;
}

export interface LockOptions {
  /** The folder as the caller wrote it. */
  readonly shownAs: string;
  readonly log: (line: string) => void;
  /** How long a holder that shows no sign of life is waited for, in ms. */
  readonly silenceMs?: number;
}

/** How often a holder shows that it lives, in ms; and how often it may miss that. */
const BEAT_MS = 2_000;
const SILENCE_MS = 5 * BEAT_MS;

/** Throws `database_locked` while another process, or this one, has the folder open. */
export async function lockFolder(folder: string, options: LockOptions): Promise<FolderLock> {
  for (;;) {
    const newest = highest(folder);
    const file = lockFile(folder, newest);
    const holder = newest === 0 ? "nobody" : readLock(file);
    if (holder === "gone") continue; // A successor removed it since we looked.
    if (holder !== "nobody" && (await isAlive(holder, file, options))) throw locked(holder, options.shownAs);
    const mine = newest + 1;
    if (!createLock(folder, mine)) continue;
    if (highest(folder) > mine) {
      rmSync(lockFile(folder, mine), { force: true });
      continue;
    }
    tidy(folder, mine);
    return held(lockFile(folder, mine));
  }
}

function held(file: string): FolderLock {
  const beat = setInterval(() => {
    try {
      utimesSync(file, new Date(), new Date());
    } catch {
      // The folder was removed under us: nothing to hold any more.
    }
  }, BEAT_MS);
  beat.unref();
  return {
    release() {
      clearInterval(beat);
      try {
        writeFileSync(`${file}.released`, JSON.stringify("nobody"));
        renameSync(`${file}.released`, file);
      } catch {
        // As above.
      }
    },
  };
}

/** Where its process cannot be asked about (another container or machine), a holder lives as long as it shows it. */
async function isAlive(
  holder: Holder,
  file: string,
  { log, silenceMs = SILENCE_MS }: LockOptions,
): Promise<boolean> {
  const answer = liveness(holder);
  if (answer !== "unknown") return answer === "alive";
  log(
    `Waiting up to ${silenceMs / 1000} s to see whether ${holder.host} still has the embedded database open.`,
  );
  const before = modified(file);
  for (const end = Date.now() + silenceMs; Date.now() < end; await wait(100)) {
    if (modified(file) !== before) return true;
  }
  return false;
}

function modified(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function lockFile(folder: string, number: number): string {
  return join(folder, `lock.${number}`);
}

function highest(folder: string): number {
  const numbers = readdirSync(folder).map((name) => Number(/^lock\.(\d+)$/.exec(name)?.[1] ?? 0));
  return Math.max(0, ...numbers);
}

/** What is neither a holder nor given up was not written by us: nobody holds it. */
function readLock(file: string): Holder | "nobody" | "gone" {
  try {
    const content: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isHolder(content) ? content : "nobody";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "gone" : "nobody";
  }
}

/** With its content from the first moment on: a link to a file that is written already. */
function createLock(folder: string, number: number): boolean {
  const unlinked = join(folder, `lock.${number}.${process.pid}.${Math.random().toString(36).slice(2)}`);
  try {
    writeFileSync(unlinked, JSON.stringify(thisProcess()), { mode: 0o600 });
    linkSync(unlinked, lockFile(folder, number));
    return true;
  } catch (error) {
    // Somebody was faster; or has won and tidied up our file.
    if (["EEXIST", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  } finally {
    rmSync(unlinked, { force: true });
  }
}

/** Removes what is older, and what starters left that were killed in between. */
function tidy(folder: string, mine: number): void {
  for (const name of readdirSync(folder)) {
    const number = Number(/^lock\.(\d+)/.exec(name)?.[1] ?? mine);
    const isUnlinked = /^lock\.\d+\./.test(name);
    if (number < mine || (number === mine && isUnlinked)) rmSync(join(folder, name), { force: true });
  }
}

function locked(holder: Holder, shownAs: string): OncewardError {
  const { pid, host, started } = thisProcess();
  const isThis = holder.pid === pid && holder.host === host && holder.started === started;
  return new OncewardError(
    "database_locked",
    isThis
      ? `This process has the embedded database in ${shownAs} open already: make one Onceward and share it.`
      : `The embedded database in ${shownAs} is open in process ${holder.pid}` +
          `${holder.host === host ? "" : ` on ${holder.host}`}. One process can use it at a time: stop that one, or ` +
          "set `database` to the URL of a Postgres server, which any number of processes can share.",
  );
}
