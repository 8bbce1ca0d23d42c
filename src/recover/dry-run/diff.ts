import type { SeenAfter, SeenRow, SeenTable } from "./see.ts";

type Key = Readonly<Record<string, unknown>> | null;

/** A row that would be written. Its key is null where its table has no primary key. */
export interface RowChange {
  readonly change: "inserted" | "changed" | "deleted";
  readonly key: Key;
  /** The columns that differ; of a changed row only. Empty: it was written again as it was. */
  readonly columns?: readonly string[];
  /** Only where values were asked for; of a changed row, the columns that differ. */
  readonly before?: Readonly<Record<string, unknown>>;
  readonly after?: Readonly<Record<string, unknown>>;
}

export interface TableChange {
  readonly table: string;
  readonly rows: readonly RowChange[];
  /** There are more rows than are listed. */
  readonly more: boolean;
  /** Why its rows are not listed: then these are the counts of Postgres. */
  readonly unseen?: {
    readonly why: string;
    readonly inserts: number;
    readonly updates: number;
    readonly deletes: number;
  };
}

/** Pairs the rows from after with those from before. A table that is as it was is left out. */
export function diff(
  after: SeenAfter,
  before: ReadonlyMap<string, readonly SeenRow[]>,
  options: { readonly values: boolean; readonly maxRows: number },
): TableChange[] {
  return after.tables.flatMap((table) => {
    const { table: name, inserts, updates, deletes, unseen } = table;
    if (unseen !== undefined)
      return [{ table: name, rows: [], more: false, unseen: { why: unseen, inserts, updates, deletes } }];
    const was = before.get(table.oid) ?? [];
    const more = Math.max(table.rows?.length ?? 0, was.length) >= options.maxRows;
    const rows = rowsOf(table, was).map((row) => (options.values ? row : withoutValues(row)));
    return rows.length > 0 ? [{ table: name, rows, more }] : [];
  });
}

function rowsOf(table: SeenTable, before: readonly SeenRow[]): RowChange[] {
  const old = new Map(before.map((row) => [keyText(row.key), row]));
  const keyed = table.key.length > 0;
  const written = (table.rows ?? []).map(({ key, columns }): RowChange => {
    const was = keyed ? old.get(keyText(key)) : undefined;
    if (!was) return { change: "inserted", key, after: columns };
    old.delete(keyText(key));
    const names = Object.keys(columns).filter((name) => !same(columns[name], was.columns[name]));
    const only = (of: Readonly<Record<string, unknown>>): Record<string, unknown> =>
      Object.fromEntries(names.map((name) => [name, of[name]]));
    return { change: "changed", key, columns: names, before: only(was.columns), after: only(columns) };
  });
  const gone = keyed ? [...old.values()] : before;
  return [
    ...written,
    ...gone.map((row): RowChange => ({ change: "deleted", key: row.key, before: row.columns })),
  ];
}

function withoutValues({ change, key, columns }: RowChange): RowChange {
  return { change, key, ...(columns && { columns }) };
}

function keyText(key: Key): string {
  return JSON.stringify(key && Object.entries(key).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
