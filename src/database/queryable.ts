/** An open transaction, client or pool of any library we know, as a Queryable: recognised by its shape. */
import { OncewardError } from "../errors.ts";
import type { Param, Queryable } from "./database.ts";
import { asDatabaseError } from "./failure.ts";
import { sendable, statementClass, submit } from "./pg-statement.ts";
import { isPostgresJs, runPostgresJs } from "./postgres-js-query.ts";

type Row = Record<string, unknown>;
type Run = (text: string, params: readonly Param[]) => PromiseLike<unknown>;

/**
 * The caller's transaction as the ledger uses it, so that what is enqueued or taken commits with it.
 * Throws `config_invalid` for what it does not recognise.
 */
export function asQueryable(tx: unknown): Queryable {
  if (isOurs(tx)) return tx;
  const isPg = has(tx, "query", "getTypeParser");
  const run =
    prismaRun(tx) ??
    kyselyRun(tx) ??
    drizzleRun(tx) ??
    postgresJsRun(tx) ??
    (isPg ? pgRun(tx) : queryRun(tx));
  if (!run) {
    throw new OncewardError(
      "config_invalid",
      `This is no transaction that Onceward knows (${describe(tx)}). It takes a pg client, a postgres.js sql, ` +
        "a PGlite transaction, a transaction of Drizzle, Kysely or Prisma, or anything with query(text, params).",
    );
  }
  return queryable(run, isPg, !isPg && !isPostgresJs(tx));
}

/** A client of `pg` that is ours alone, outside of transactions: there statements go out in one piece. */
export function ownQueryable(client: object): Queryable {
  const Statement = has(client, "query", "getTypeParser") ? statementClass(client) : undefined;
  if (!Statement) return asQueryable(client);
  const types = typesOf(client as Shape<"getTypeParser">);
  return queryable(
    (text, values) => submit(client, (callback) => new Statement({ text, values, types, callback })),
    true,
  );
}

/** Made from a way to run one statement; errors come out as ours where they say that the database is away. */
export function queryable(run: Run, takesTexts = false, jsonAsText = false): Queryable {
  const made: Queryable = {
    async query(text, params = []) {
      try {
        return { rows: rowsOf(await run(text, params)) };
      } catch (error) {
        throw asDatabaseError(withoutParams(error));
      }
    },
    ...(takesTexts && { takesTexts }),
    ...(jsonAsText && { jsonAsText }),
  };
  ours.add(made);
  return made;
}

const ours = new WeakSet<object>();

function isOurs(tx: unknown): tx is Queryable {
  return (
    typeof tx === "object" &&
    tx !== null &&
    (ours.has(tx) || (has(tx, "query", "transaction", "close") && "single" in tx))
  );
}

/** Oids of json and jsonb. */
const JSON_OIDS = new Set([114, 3802]);

/** JSON is parsed here, since the type parsers of `pg` are global and applications replace them. */
function typesOf(tx: Shape<"getTypeParser">): object {
  return {
    getTypeParser: (oid: number, format?: string): unknown =>
      JSON_OIDS.has(oid) && format !== "binary" ? JSON.parse : tx.getTypeParser(oid, format),
  };
}

function pgRun(tx: Shape<"query" | "getTypeParser">): Run {
  const types = typesOf(tx);
  return (text, params) => tx.query({ text, values: sendable(params), types }) as PromiseLike<unknown>;
}

/** PGlite, TypeORM and whatever else takes `query(text, params)`. */
function queryRun(tx: unknown): Run | undefined {
  if (!has(tx, "query")) return undefined;
  return (text, params) => tx.query(text, sendable(params)) as PromiseLike<unknown>;
}

function prismaRun(tx: unknown): Run | undefined {
  if (!has(tx, "$queryRawUnsafe")) return undefined;
  return (text, params) => tx.$queryRawUnsafe(text, ...params) as PromiseLike<unknown>;
}

/** Without plugins: CamelCasePlugin would rename the keys inside our jsonb. The object is Kysely's CompiledQuery. */
function kyselyRun(tx: unknown): Run | undefined {
  if (!has(tx, "executeQuery", "withoutPlugins")) return undefined;
  const plain = tx.withoutPlugins();
  if (!has(plain, "executeQuery")) return undefined;
  return (sql, parameters) =>
    plain.executeQuery({
      sql,
      parameters,
      query: { kind: "RawNode", sqlFragments: [sql], parameters: [] },
      queryId: { queryId: "onceward" },
    }) as PromiseLike<unknown>;
}

/** Drizzle's `execute(sql)` knows no $1; its session does, with every driver, and it is what `execute` calls. */
function drizzleRun(tx: unknown): Run | undefined {
  const session = member(member(tx, "_"), "session");
  if (!has(session, "prepareQuery")) return undefined;
  return (sql, params) => {
    const prepared = session.prepareQuery({ sql, params: [...params] }, undefined, undefined, false);
    return (prepared as Shape<"execute">).execute() as PromiseLike<unknown>;
  };
}

function postgresJsRun(tx: unknown): Run | undefined {
  return isPostgresJs(tx) ? (text, params) => runPostgresJs(tx, text, params) : undefined;
}

/** Drivers answer with `{ rows }` or with the rows. */
function rowsOf(result: unknown): Row[] {
  const rows = member(result, "rows") ?? result;
  return Array.isArray(rows) ? (rows as Row[]) : [];
}

/** PGlite and Drizzle hang the parameters on their errors, Drizzle in the message: payloads do not belong there. */
function withoutParams(error: unknown): unknown {
  if (!(error instanceof Error) || !("params" in error)) return error;
  if (error.cause instanceof Error) return withoutParams(error.cause);
  Reflect.deleteProperty(error, "params");
  return error;
}

type Shape<Names extends string> = Record<Names, (...args: unknown[]) => unknown>;

/** True if all these are methods of it. */
function has<Names extends string>(value: unknown, ...names: Names[]): value is Shape<Names> {
  return names.every((name) => typeof member(value, name) === "function");
}

function member(value: unknown, name: string): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  return (value as Record<string, unknown>)[name];
}

function describe(value: unknown): string {
  if (typeof value !== "object" || value === null) return typeof value;
  return value.constructor?.name ?? "an object";
}
