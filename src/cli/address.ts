import { OncewardError } from "../errors.ts";

/**
 * The same error with the address that was tried, since it need not be the one that was meant. From a URL only what
 * names the database: it holds a password too.
 */
export function withAddress(error: unknown, url?: string): unknown {
  if (!(error instanceof OncewardError) || error.code !== "database_unavailable") return error;
  const where = addressOf(url) ?? triedAddress(error.cause);
  if (where === undefined) return error;
  return new OncewardError(
    error.code,
    `${error.message} It was asked for ${where}. Start it, or mend --database, DATABASE_URL or the configuration.`,
    { cause: error.cause },
  );
}

function addressOf(text: string | undefined): string | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const { hostname, port, pathname, searchParams } = new URL(text);
  const host = hostname || searchParams.get("host") || "localhost";
  return `at ${host}:${port || searchParams.get("port") || "5432"}, database ${pathname.slice(1)}`;
}

interface SocketError {
  readonly address?: unknown;
  readonly hostname?: unknown;
  readonly port?: unknown;
  readonly cause?: unknown;
  readonly errors?: readonly unknown[];
}

/** What Node says of the socket; of a host with several addresses, of the first one. */
function triedAddress(cause: unknown, depth = 0): string | undefined {
  if (typeof cause !== "object" || cause === null || depth > 4) return undefined;
  const { address, hostname, port, cause: deeper, errors = [] } = cause as SocketError;
  const host = address ?? hostname;
  if (typeof host === "string") return `at ${host}${typeof port === "number" ? `:${port}` : ""}`;
  return triedAddress(errors[0], depth + 1) ?? triedAddress(deeper, depth + 1);
}
