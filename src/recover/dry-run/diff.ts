import type { SeenAfter, SeenRow, SeenTable } from "./see.ts";

type Key = Readonly<Record<string, unknown>> | null;

/**
 * A row that would be written. Its key is null where its table has no primary key. Numbers of more than 15 digits are
 * text, here and among the values.
 */
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
    const rows = rowsOf(table, was, options.values);
    return rows.length > 0 ? [{ table: name, rows, more }] : [];
  });
}

function rowsOf(table: SeenTable, before: readonly SeenRow[], shown: boolean): RowChange[] {
  const old = new Map(before.map((row) => [keyText(row.key), row]));
  const keyed = table.key.length > 0;
  const written = (table.rows ?? []).map(({ key, columns, values }): RowChange => {
    const was = keyed ? old.get(keyText(key)) : undefined;
    if (!was) return { change: "inserted", key, ...(shown && { after: values ?? {} }) };
    old.delete(keyText(key));
    const names = Object.keys(columns).filter((name) => columns[name] !== was.columns[name]);
    const only = (of: SeenRow["values"]): Record<string, unknown> =>
      Object.fromEntries(names.map((name) => [name, of?.[name]]));
    const differing = shown && { before: only(was.values), after: only(values) };
    return { change: "changed", key, columns: names, ...differing };
  });
  const gone = keyed ? [...old.values()] : before;
  return [
    ...written,
    ...gone.map(({ key, values }): RowChange => ({
      change: "deleted",
      key,
      ...(shown && { before: values ?? {} }),
    })),
  ];
}

function keyText(key: Key): string {
  return JSON.stringify(key && Object.entries(key).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
