import { createHash } from "node:crypto";
import { sqlStateOf } from "../database/failure.ts";
import type { Database, Queryable } from "../database/database.ts";
import { OncewardError } from "../errors.ts";
import { checkSchemaName, defaultSchema, quoteIdentifier } from "./schema.ts";
import { migrations, type Migration } from "./sql.ts";

export interface MigrateOptions {
  readonly schema?: string;
}

interface Applied {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  readonly checksum: string;
}

/**
 * Brings the ledger's schema up to date, and says which migrations that took. Safe when any number of
 * processes start at once: the first one migrates, the others wait for it and find nothing to do.
 */
export async function migrate(
  database: Queryable,
  options: MigrateOptions = {},
): Promise<{ applied: number[] }> {
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const before = await appliedMigrations(database, schema);
  checkApplied(before, schema);
  const missing = migrations.filter((migration) => !before.some((one) => one.version === migration.version));
  if (missing.length === 0) return { applied: [] };
  await inReadCommitted(database, (queryable) => queryable.query(migrationSql({ schema })));
  checkApplied(await appliedMigrations(database, schema), schema);
  return { applied: missing.map((migration) => migration.version) };
}

/** Whoever waited for another one's migration has to see it then, which a snapshot from before does not. */
async function inReadCommitted(
  database: Queryable,
  work: (queryable: Queryable) => Promise<unknown>,
): Promise<void> {
  if (!("transaction" in database)) await work(database);
  // It waits for whoever migrates just now, and may have large tables to change.
  else await (database as Database).transaction((_, queryable) => work(queryable), { patient: true });
}

/** Refuses to work on a schema that is missing, older than this code, or changed by newer code in a way it cannot know. */
export async function checkSchema(database: Queryable, options: MigrateOptions = {}): Promise<void> {
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const applied = await appliedMigrations(database, schema);
  if (applied.length === 0) {
    throw new OncewardError(
      "schema_missing",
      `The schema ${quoteIdentifier(schema)} holds no ledger. Run \`onceward migrate\`, or the output of \`onceward sql\`.`,
    );
  }
  checkApplied(applied, schema);
  const newest = applied.at(-1)?.version ?? 0;
  if (newest < migrations.length) {
    throw new OncewardError(
      "schema_outdated",
      `The ledger is at version ${newest}, this code needs ${migrations.length}. Run \`onceward migrate\`.`,
    );
  }
}

/**
 * The migrations as one SQL statement, which changes nothing where they have been applied. It is one
 * `do` block, so that every driver can send it and it needs no transaction of its own.
 */
export function migrationSql(options: MigrateOptions = {}): string {
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const quoted = quoteIdentifier(schema);
  const parts = migrations.map(
    (migration) => `
  if not exists (select from ${quoted}.migration where version = ${migration.version}) then
    execute $onceward_migration$
${inSchema(migration.text, quoted).trimEnd()}
$onceward_migration$;
    insert into ${quoted}.migration (version, name, breaking, checksum, applied_at)
    values (${migration.version}, '${migration.name}', ${migration.breaking}, '${checksum(migration)}', clock_timestamp());
  end if;
`,
  );
  return `do $onceward_do$
begin
  -- Two processes that migrate at once: the second waits here, and then finds nothing to do.
  perform pg_advisory_xact_lock(${lockOf(schema)});
  if not exists (select from pg_catalog.pg_namespace where nspname = '${schema}') then
    create schema ${quoted};
  end if;
  create table if not exists ${quoted}.migration (
    version integer primary key,
    name text not null,
    breaking boolean not null,
    checksum text not null,
    applied_at timestamptz not null
  );
${parts.join("")}end
$onceward_do$`;
}

async function appliedMigrations(database: Queryable, schema: string): Promise<Applied[]> {
  try {
    const { rows } = await database.query(
      `select coalesce(jsonb_agg(to_jsonb(m) order by m.version), '[]')::text as answer from ${quoteIdentifier(schema)}.migration m`,
    );
    return JSON.parse(String(rows[0]?.["answer"])) as Applied[];
  } catch (error) {
    // Neither the table nor perhaps the schema is there yet.
    if (["42P01", "3F000"].includes(sqlStateOf(error) ?? "")) return [];
    throw error;
  }
}

function checkApplied(applied: readonly Applied[], schema: string): void {
  for (const one of applied) {
    const known = migrations.find((migration) => migration.version === one.version);
    if (!known && one.breaking) {
      throw new OncewardError(
        "schema_too_new",
        `Newer code has changed the ledger (migration ${one.version}, ${one.name}) in a way this version cannot work with. ` +
          "Update the onceward package of this process.",
      );
    }
    if (known && checksum(known) !== one.checksum) {
      throw new OncewardError(
        "schema_altered",
        `Migration ${one.version} (${one.name}) in ${quoteIdentifier(schema)} was made from another text than this version's. ` +
          "It comes from an unreleased version: use another schema, or drop this one if nothing in it matters.",
      );
    }
  }
}

function inSchema(text: string, quoted: string): string {
  return text.replaceAll(/\bonceward\b(?=\.)|(?<=\bschema )onceward\b/g, quoted);
}

function checksum(migration: Migration): string {
  return createHash("sha256").update(migration.text).digest("hex").slice(0, 16);
}

/** One lock a schema, out of the way of locks that an application takes. */
function lockOf(schema: string): string {
  return createHash("sha256").update(`onceward migrate ${schema}`).digest().readBigInt64BE().toString();
}
