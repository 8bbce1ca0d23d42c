/** From whatever the application has to a Database. */
import { OncewardError } from "../errors.ts";
import type { Database } from "./database.ts";
import { driverDatabase } from "./driver-database.ts";
import { embeddedDatabase } from "./embedded.ts";
import { type PgClient, pgDatabase, type PgPool } from "./pg.ts";
import type { PGliteLike } from "./pglite.ts";
import type { PostgresJs } from "./postgres-js.ts";

/** Everything that has transactions of its own kind and can be opened; `Tx` is that kind. */
export type DatabaseInput<Tx> = Database<Tx> | PgPool<Tx> | PostgresJs<Tx> | PGliteLike<Tx>;

/**
 * Nothing, or "embedded": the embedded Postgres in ./.onceward/db. A connection URL, a `pg.Pool`, a `sql` of postgres.js or a
 * PGlite instance: through that driver. A Database, as every adapter makes one, is returned as it is.
 */
export function openDatabase(input?: string): Database<PgClient>;
export function openDatabase<Tx>(input: DatabaseInput<Tx>): Database<Tx>;
export function openDatabase(input?: unknown): Database;
export function openDatabase(input?: unknown): Database {
  if (input === undefined) return embeddedByDefault(process.env);
  if (input === "embedded") return embeddedDatabase();
  if (typeof input === "string") return pgDatabase(checkUrl(input));
  const database = isDatabase(input) ? input : driverDatabase(input);
  if (database) return database;
  throw new OncewardError(
    "config_invalid",
    "`database` is none that Onceward knows. It takes a URL (postgres://…), a pg.Pool, a sql of postgres.js, a " +
      "PGlite instance, or what drizzleDatabase(db), kyselyDatabase(db) or prismaDatabase(prisma) returns; left " +
      'out, or as "embedded", an embedded Postgres.' +
      hint(input),
  );
}

/** Set where a process does not stay, or its disk does not: what was acknowledged there would be gone with it. */
const productions = ["AWS_LAMBDA_FUNCTION_NAME", "VERCEL"];

/** A variable that was forgotten must not become a database that nobody looks into. */
function embeddedByDefault(env: NodeJS.ProcessEnv): Database<PgClient> {
  // Next imports every route while it builds, where nothing is opened and settings may be unknown yet.
  const building = env["NEXT_PHASE"] === "phase-production-build";
  const sign = env["NODE_ENV"] === "production" ? "NODE_ENV" : productions.find((name) => env[name]);
  if (sign === undefined || building) return embeddedDatabase();
  throw new OncewardError(
    "config_invalid",
    `No \`database\` was given, and this is production (${sign}): is DATABASE_URL set? Events would be acknowledged ` +
      'onto the local disk. Where that is wanted, say so: createOnce({ database: "embedded" }).',
  );
}

function isDatabase(input: unknown): input is Database {
  if (typeof input !== "object" || input === null) return false;
  const { query, transaction, close, single } = input as Partial<Database>;
  return (
    typeof query === "function" &&
    typeof transaction === "function" &&
    typeof close === "function" &&
    typeof single === "boolean"
  );
}

/** What was probably meant. */
function hint(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  if ("$queryRawUnsafe" in input) return " This is a PrismaClient: wrap it with prismaDatabase(prisma).";
  if ("withoutPlugins" in input) return " This is a Kysely: wrap it with kyselyDatabase(db).";
  if ("$client" in input) return " This is a Drizzle: wrap it with drizzleDatabase(db).";
  return "";
}

/** The URL itself is never shown: it holds a password. */
function checkUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "postgres:" || url?.protocol === "postgresql:") return text;
  throw new OncewardError(
    "config_invalid",
    "The database URL cannot be read. It looks like postgres://user:password@host:5432/name; in the password " +
      "write # / ? @ : % as %23 %2F %3F %40 %3A %25." +
      (text.trim() === "" ? " It is empty: is the environment variable set?" : ""),
  );
}
