/** Several sessions of one database, for tests of what happens between them. */
import pg from "pg";
import type { Queryable } from "../../src/database/database.ts";
import { asQueryable } from "../../src/database/queryable.ts";

export interface Session extends Queryable {
  end(): Promise<void>;
}

/** A connection of its own, for a transaction that stays open. */
export async function openSession(url: string): Promise<Session> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { ...asQueryable(client), end: () => client.end() };
}

/** Resolves once this many sessions of the database wait for a lock. */
export async function untilBlocked(database: Queryable, sessions: number): Promise<void> {
  for (;;) {
    const { rows } = await database.query(
      `select to_jsonb(count(*)) as n from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (Number(rows[0]?.["n"]) >= sessions) return;
  }
}
