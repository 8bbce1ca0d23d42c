/**
 * What a driver's error means. Every driver says it in its own way; the ledger only needs to know
 * whether the database is away (503, try again) or something else went wrong (passed on as it is).
 */
import { OncewardError } from "../errors.ts";

/** Socket errors of Node, and the codes postgres.js has for the same. */
const AWAY = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT", // a unix socket that is not there
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
  // Prisma: not reachable, timed out, closed by the server
  "P1001",
  "P1002",
  "P1008",
  "P1017",
]);

/** The words of drivers that give no code. */
const AWAY_WORDS = /^(Connection terminated|Client has encountered a connection error|Client was closed)/;
const EXHAUSTED_WORDS = /^timeout exceeded when trying to connect/;
const NOT_STARTED_WORDS = /Unable to start a transaction in the given time/;

/** Prisma's names for errors of its driver adapters which keep no SQLSTATE. */
const AWAY_KINDS = new Set([
  "DatabaseNotReachable",
  "ConnectionClosed",
  "SocketTimeout",
  "TooManyConnections",
]);

/**
 * An OncewardError (`database_unavailable`, `pool_exhausted`, `transaction_aborted`) where the error
 * says so, else the very same error. Only for errors of our own calls: an ECONNREFUSED that a
 * handler's `fetch` threw looks just like a database's.
 */
export function asDatabaseError(error: unknown): unknown {
  if (error instanceof OncewardError) return error;
  const codes = codesOf(error);
  const message = textOf(error, "message");
  if (codes.includes("P2024") || EXHAUSTED_WORDS.test(message) || NOT_STARTED_WORDS.test(message)) {
    return exhausted(error);
  }
  const away = codes.find((code) => AWAY.has(code) || AWAY_KINDS.has(code) || /^08...$/.test(code));
  if (away !== undefined || AWAY_WORDS.test(message)) {
    return new OncewardError("database_unavailable", `The database does not answer (${away ?? "cut off"}).`, {
      cause: error,
    });
  }
  return codes.includes("25P02") ? aborted(error) : error;
}

/** The SQLSTATE of an error of any driver or ORM, where it has one. */
export function sqlStateOf(error: unknown): string | undefined {
  return codesOf(error).find((code) => /^[0-9A-Z]{5}$/.test(code) && !/^(P[12]\d{3}|E[A-Z]{4})$/.test(code));
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

/** Codes where drivers put them: the error, what caused it, and Prisma's wrapped driver error. */
function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  const look = (value: unknown, depth: number): void => {
    if (typeof value !== "object" || value === null || depth > 4) return;
    for (const name of ["code", "originalCode", "kind"]) {
      const code = textOf(value, name);
      if (code !== "") codes.push(code);
    }
    look(read(value, "cause"), depth + 1);
    look(read(read(value, "meta"), "driverAdapterError"), depth + 1);
    const several = read(value, "errors"); // AggregateError: every address of a host refused
    if (Array.isArray(several)) for (const one of several.slice(0, 4)) look(one, depth + 1);
  };
  look(error, 0);
  return codes;
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
