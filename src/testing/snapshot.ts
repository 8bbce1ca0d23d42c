/** What stands in a database, as sets of rows that can be compared. */
import type { Queryable } from "../database/database.ts";
import { quoteIdentifier } from "../ledger/schema.ts";

/** A row as its leaves: `{"amount": "5", "address.city": "\"Rome\""}`; values are JSON. */
export type Row = Readonly<Record<string, string>>;
/** The rows of every table, by its name. */
export type Snapshot = ReadonlyMap<string, readonly Row[]>;

export interface Difference {
  readonly table: string;
  /** There after one clean delivery, and not here. */
  readonly missing: readonly Row[];
  /** Here, and not there after one clean delivery. */
  readonly extra: readonly Row[];
}

/** The application's own tables: those outside of the ledger, as quoted names. */
export async function findTables(database: Queryable, schema: string): Promise<string[]> {
  const { rows } = await database.query(
    `select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_catalog.pg_tables
     where schemaname not in ('pg_catalog', 'information_schema') and schemaname <> $1::text
       and schemaname not like 'pg\\_t%' order by 1`,
    [schema],
  );
  return rows.map((row) => String(row["name"]));
}

export async function readTables(
  database: Queryable,
  tables: readonly string[],
): Promise<Map<string, readonly Row[]>> {
  const snapshot = new Map<string, readonly Row[]>();
  for (const table of tables) snapshot.set(table, await readRows(database, `select * from ${table}`));
  return snapshot;
}

/** What the ledger holds besides the event itself: what was enqueued, effect keys, machines. */
export async function readEffects(
  database: Queryable,
  schema: string,
  lane: string,
): Promise<Map<string, readonly Row[]>> {
  const ledger = quoteIdentifier(schema);
  const own = lane.replaceAll("'", "''");
  return new Map([
    [
      "enqueued",
      await readRows(
        database,
        `select t.scope, t.key, t.state, t.priority, t.serial, p.body from ${ledger}.task t
         left join ${ledger}.payload p on p.scope = t.scope and p.key = t.key
         where t.scope <> '${own}' and not starts_with(t.scope, '${own}/')`,
      ),
    ],
    ["effect keys", await readRows(database, `select scope, key from ${ledger}.effect`)],
    ["machines", await readRows(database, `select name, subject, state, version from ${ledger}.machine`)],
  ]);
}

async function readRows(database: Queryable, select: string): Promise<Row[]> {
  const { rows } = await database.query(`select to_jsonb(t)::text as row from (${select}) t`);
  return rows.map((row) => leavesOf(JSON.parse(String(row["row"]))));
}

/** Also for lists of anything, such as what happened outside. */
export function leavesOf(value: unknown): Row {
  const leaves: Record<string, string> = {};
  const visit = (path: string, at: unknown): void => {
    const inner = typeof at === "string" ? parsed(at) : at;
    if (typeof inner === "object" && inner !== null) {
      for (const [name, child] of Object.entries(inner)) visit(path === "" ? name : `${path}.${name}`, child);
    } else {
      leaves[path] = JSON.stringify(at) ?? "undefined";
    }
  };
  visit("", value);
  return leaves;
}

/** The input of a job is JSON inside of text: its parts are compared one by one, too. */
function parsed(text: string): unknown {
  if (!/^[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Two clean deliveries should do the same; what differs between them are times, random ids and the numbers of
 * sequences. By table: the leaves that cannot be compared.
 */
export function findVolatile(one: Snapshot, other: Snapshot): ReadonlyMap<string, ReadonlySet<string>> {
  const volatile = new Map<string, ReadonlySet<string>>();
  for (const [table, rows] of one) {
    const others = other.get(table) ?? [];
    const paths = new Set([...rows, ...others].flatMap((row) => Object.keys(row)));
    const valuesOf = (path: string, of: readonly Row[]): string =>
      JSON.stringify(of.map((row) => row[path] ?? "").toSorted(bytewise));
    volatile.set(
      table,
      new Set([...paths].filter((path) => valuesOf(path, rows) !== valuesOf(path, others))),
    );
  }
  return volatile;
}

/** How `actual` differs from `expected`, table by table; empty where it does not. */
export function compare(
  expected: Snapshot,
  actual: Snapshot,
  volatile: ReadonlyMap<string, ReadonlySet<string>>,
): Difference[] {
  return [...expected].flatMap(([table, rows]) => {
    const steady = (row: Row): Row =>
      Object.fromEntries(Object.entries(row).filter(([path]) => !volatile.get(table)?.has(path)));
    const missing = new Map<string, Row[]>();
    for (const row of rows.map(steady)) {
      const text = canonical(row);
      missing.set(text, [...(missing.get(text) ?? []), row]);
    }
    const extra = (actual.get(table) ?? []).map(steady).filter((row) => !missing.get(canonical(row))?.pop());
    const left = [...missing.values()].flat();
    return left.length + extra.length > 0 ? [{ table, missing: left, extra }] : [];
  });
}

export function areEqual(some: readonly Row[], others: readonly Row[]): boolean {
  const [a, b] = [some, others].map((rows) => rows.map(canonical).toSorted(bytewise).join("\n"));
  return a === b;
}

function canonical(row: Row): string {
  return JSON.stringify(Object.entries(row).toSorted(([a], [b]) => bytewise(a, b)));
}

function bytewise(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
