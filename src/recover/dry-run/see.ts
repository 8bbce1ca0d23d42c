/** What the transaction of a dry run has written, through the verbs of sql/013_dry_run.sql. */
import type { Verbs } from "../../ledger/verbs.ts";

export interface Look {
  /** The values of columns, beside their hashes. */
  readonly values: boolean;
  /** Larger tables are counted and not looked at. */
  readonly maxBytes: number;
  readonly maxRows: number;
}

/** A row: its primary key, its columns as hashes, and as they are where that was asked for. */
export interface SeenRow {
  readonly key: Readonly<Record<string, unknown>> | null;
  readonly columns: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, unknown>> | null;
}

export interface SeenTable {
  readonly oid: string;
  readonly table: string;
  /** The columns of the primary key. */
  readonly key: readonly string[];
  readonly inserts: number;
  readonly updates: number;
  readonly deletes: number;
  readonly rows?: readonly SeenRow[];
  readonly locked?: readonly string[];
  readonly unseen?: string;
}

/** Inserts, updates and deletes, by the table's oid. */
export type Counted = Readonly<Record<string, readonly [number, number, number]>>;

export interface SeenAfter {
  readonly xids: readonly string[];
  readonly tables: readonly SeenTable[];
  readonly sequences: readonly string[];
}

/** Bounds how long it waits for others, and for itself; and says what was counted on this connection before. */
export function begin(verbs: Verbs, limits: { lockMs: number; statementMs: number }): Promise<Counted> {
  return verbs.call("dry_run_begin", [String(limits.lockMs), String(limits.statementMs)]);
}

/** What it has written so far. */
export async function seeAfter(verbs: Verbs, look: Look, counted: Counted): Promise<SeenAfter> {
  const texts = [String(look.values), String(look.maxBytes), String(look.maxRows)];
  const seen = await verbs.call<SeenAfter>("dry_run_after", texts);
  const tables = seen.tables.map((table) => {
    const [inserts, updates, deletes] = counted[table.oid] ?? [0, 0, 0];
    return {
      ...table,
      inserts: table.inserts - inserts,
      updates: table.updates - updates,
      deletes: table.deletes - deletes,
    };
  });
  return { ...seen, tables };
}

/** The rows of these tables as they were, by the table's oid; after the rollback to the savepoint. */
export async function seeBefore(
  verbs: Verbs,
  tables: readonly SeenTable[],
  xids: readonly string[],
  look: Look,
): Promise<ReadonlyMap<string, readonly SeenRow[]>> {
  if (tables.length === 0) return new Map();
  const seen = tables.map(({ key, locked, rows = [], updates, deletes }) =>
    JSON.stringify({ key, locked, rows: rows.map((row) => ({ key: row.key })), changes: updates + deletes }),
  );
  const rows = await verbs.call<readonly (readonly SeenRow[])[]>("dry_run_before", [
    tables.map(({ oid }) => oid),
    seen,
    xids,
    String(look.values),
    String(look.maxRows),
  ]);
  return new Map(tables.map((table, i) => [table.oid, rows[i] ?? []]));
}
