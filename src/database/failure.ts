/**
 * What a driver's error means. Every driver says it in its own way; the ledger only needs to know
 * whether the database is away (503, try again) or something else went wrong (passed on as it is).
 */
import { OncewardError } from "../errors.ts";

/** Errors of sockets, which do not say whose socket it was. */
const SOCKET = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT", // a unix socket that is not there
]);

/** Codes that only a database's client has. */
const AWAY = new Set([
  // postgres.js
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  // SQLSTATE: shutdown, crash, starting up, idle sessions ended, too many connections
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "25P03",
  "53300",
  // Prisma: not reachable, timed out, closed by the server; and its names for what its drivers said
  "P1001",
  "P1002",
  "P1008",
  "P1017",
  "DatabaseNotReachable",
  "ConnectionClosed",
  "SocketTimeout",
  "TooManyConnections",
]);

/** SQLSTATE of a server that is there and takes no writes: no disk, no memory, or read-only since it is a standby. */
const WITHOUT_WRITES = /^(53[0124]00|58030|25006)$/;

/** The words of drivers that give no code. */
const AWAY_WORDS =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end|PGlite is clos)/;
const EXHAUSTED_WORDS =
  /^timeout exceeded when trying to connect|Unable to start a transaction in the given time/;

/**
 * An OncewardError (`database_unavailable`, `pool_exhausted`, `transaction_aborted`) where the error says so,
 * else the very same error. For errors of our own calls.
 */
export function asDatabaseError(error: unknown): unknown {
  return meaningOf(error, (code) => SOCKET.has(code));
}

/** The same for what a handler threw: the ECONNREFUSED of its `fetch` looks just like a database's, and is not. */
export function asDatabaseErrorOfWork(error: unknown): unknown {
  return meaningOf(error, () => false);
}

function meaningOf(error: unknown, isAway: (code: string) => boolean): unknown {
  if (error instanceof OncewardError) return error;
  const { codes, messages } = signsOf(error);
  const says = (words: RegExp): boolean => messages.some((message) => words.test(message));
  if (codes.includes("P2024") || says(EXHAUSTED_WORDS)) return exhausted(error);
  const away = codes.find(
    (code) => AWAY.has(code) || WITHOUT_WRITES.test(code) || /^08...$/.test(code) || isAway(code),
  );
  if (away !== undefined || says(AWAY_WORDS)) {
    const message =
      away !== undefined && WITHOUT_WRITES.test(away)
        ? `The database takes no writes now (${away}): its disk is full, it lacks memory, or it is a standby.`
        : `The database does not answer (${away ?? "cut off"}).`;
    return new OncewardError("database_unavailable", message, { cause: error });
  }
  if (codes.includes(LOST)) return lost(error);
  if (codes.includes(KEPT)) return kept(error);
  return codes.includes("25P02") ? aborted(error) : error;
}

/** SQLSTATE of `complete_last` and `step_save_last`: the claim is lost, and nothing was committed. */
const LOST = "OW001";

export function lost(cause?: unknown): OncewardError {
  return new OncewardError(
    "claim_lost",
    "Another attempt has taken this task over; what this one wrote is undone.",
    { cause },
  );
}

/** SQLSTATE of the same: this was committed before, and nothing was committed now. */
const KEPT = "OW002";

export function kept(cause?: unknown): OncewardError {
  return new OncewardError(
    "transaction_aborted",
    "This was committed before, and the answer to that was lost; what was written now is undone, and what was " +
      "committed counts: a task goes on after it.",
    { cause },
  );
}

/** The SQLSTATE of an error of any driver or ORM, where it has one. */
export function sqlStateOf(error: unknown): string | undefined {
  return signsOf(error).codes.find(
    (code) => /^[0-9A-Z]{5}$/.test(code) && !/^(P[12]\d{3}|E[A-Z]{4})$/.test(code),
  );
}

export function exhausted(cause?: unknown): OncewardError {
  return new OncewardError(
    "pool_exhausted",
    "No database connection became free in time: all are in use, or the database does not answer. " +
      "Make the pool larger, or look for transactions that stay open.",
    { cause },
  );
}

export function aborted(cause?: unknown): OncewardError {
  return new OncewardError(
    "transaction_aborted",
    "A statement in this transaction failed and its error was swallowed, so Postgres rolled everything back. " +
      "Let the error through, or put the statement that may fail behind a savepoint (or use ON CONFLICT).",
    { cause },
  );
}

/** Codes and messages where drivers put them: the error, what caused it, and Prisma's wrapped driver error. */
function signsOf(error: unknown): { codes: string[]; messages: string[] } {
  const codes: string[] = [];
  const messages: string[] = [];
  const look = (value: unknown, depth: number): void => {
    if (typeof value !== "object" || value === null || depth > 4) return;
    codes.push(
      ...["code", "originalCode", "kind"].map((name) => textOf(value, name)).filter((code) => code !== ""),
    );
    messages.push(textOf(value, "message"));
    look(read(value, "cause"), depth + 1);
    look(read(read(value, "meta"), "driverAdapterError"), depth + 1);
    const several = read(value, "errors"); // AggregateError: every address of a host refused
    if (Array.isArray(several)) for (const one of several.slice(0, 4)) look(one, depth + 1);
  };
  look(error, 0);
  return { codes, messages };
}

function textOf(value: unknown, name: string): string {
  const found = read(value, name);
  return typeof found === "string" ? found : "";
}

/** Reading a property of something thrown must not throw itself. */
function read(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}
