/**
 * A transaction of PGlite that answers as a client of `pg` does: who develops on the embedded database and runs on a
 * server must not find other values there.
 */
import type { PgClient } from "./pg.ts";

interface Result {
  readonly rows: unknown[];
  readonly rowCount?: number;
  readonly affectedRows?: number;
  readonly command?: string;
}

/** A Transaction of PGlite, as far as it is used here. */
export interface EmbeddedTransaction {
  query(text: string, params?: unknown[]): Promise<Result>;
  exec(script: string): Promise<Result[]>;
}

/** What PGlite reads differently from `pg`, by the oid of the type. */
export const parsersOfPg = {
  /** bigint: all of it, so as text. */
  20: (text: string): string => text,
  /** bytea: a Buffer. */
  17: (text: string): Buffer => Buffer.from(text.slice(2), "hex"),
  /** date: midnight here. */
  1082: (text: string): Date => new Date(`${text}T00:00:00`),
};

export function asPgClient(tx: EmbeddedTransaction): PgClient {
  const query = async (text: string, values: unknown[] = []): Promise<unknown> => {
    // As `pg`: without values it may be several statements.
    const result = values.length > 0 ? await tx.query(text, values) : (await tx.exec(text)).at(-1);
    const { rows = [], rowCount, affectedRows, command = "" } = result ?? {};
    return { rows, rowCount: rowCount ?? (affectedRows || null), command };
  };
  return { query: query as PgClient["query"] };
}
