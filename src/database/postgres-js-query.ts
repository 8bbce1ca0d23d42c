/** One statement through postgres.js, a `sql` or a transaction of it. */
import type { Param } from "./database.ts";
import { exhausted } from "./failure.ts";

/** The part of a `sql` that sends statements. */
export interface SqlOfPostgresJs {
  unsafe(text: string, params: unknown[]): unknown;
  typed(value: unknown, oid: number): unknown;
}

export function isPostgresJs(tx: unknown): tx is SqlOfPostgresJs {
  if (typeof tx !== "function") return false;
  const { unsafe, typed } = tx as Partial<SqlOfPostgresJs>;
  return typeof unsafe === "function" && typeof typed === "function";
}

/** A query of postgres.js. Until it is sent its `state` is null, and what it will send can still be changed. */
interface Query extends PromiseLike<RawRows> {
  raw(): Query;
  state?: unknown;
  strings?: unknown;
  args?: unknown;
}

type RawRows = (Buffer | null)[][] & { columns: Column[] };

interface Column {
  readonly name: string;
  /** Oid of its type. */
  readonly type: number;
}

/**
 * Strings are declared as text: postgres.js would otherwise ask the server for each parameter's type and convert,
 * encoding JSON twice. Rows are read raw, since `transform: postgres.camel` renames the keys inside jsonb.
 */
export async function runPostgresJs(
  sql: SqlOfPostgresJs,
  text: string,
  params: readonly Param[],
  connectionTimeoutMs?: number,
): Promise<Record<string, unknown>[]> {
  const typed = params.map((param) => (typeof param === "string" ? sql.typed(param, TEXT) : param));
  const query = (sql.unsafe(text, typed) as Query).raw();
  const rows = await (connectionTimeoutMs === undefined ? query : sentWithin(query, connectionTimeoutMs));
  return rows.map((row) => Object.fromEntries(row.map((cell, i) => read(rows.columns[i]!, cell))));
}

/**
 * postgres.js waits for a connection for ever, and what it cannot take back from its queue it would run late. So what
 * was not sent in time is made to send nothing of ours. (Its `cancel` loses the connection that was being opened, and
 * its `reserve` never ends where `fetch_types` is off.)
 */
async function sentWithin(query: Query, timeoutMs: number): Promise<RawRows> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      if (query.state !== null) return; // It runs: only slow.
      query.strings = ["select 1"];
      query.args = [];
      reject(exhausted());
    }, timeoutMs);
  });
  try {
    return await Promise.race([query, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

const BOOLEAN = 16;
const SMALLINT = 21;
const INTEGER = 23;
const TEXT = 25;
const JSON_TYPE = 114;
const JSONB = 3802;

function read({ name, type }: Column, cell: Buffer | null): [string, unknown] {
  if (cell === null) return [name, null];
  const text = cell.toString();
  if (type === JSONB || type === JSON_TYPE) return [name, JSON.parse(text)];
  if (type === BOOLEAN) return [name, text === "t"];
  return [name, type === INTEGER || type === SMALLINT ? Number(text) : text];
}
