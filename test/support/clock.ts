/**
 * The ledger's clock in a test's hands. All time in the ledger comes from one SQL function, `onceward.now()`;
 * here it is replaced by one that reads a table, so that leases end and backoffs pass without a sleep.
 */
import type { Queryable } from "../../src/database/database.ts";
import { quoteIdentifier } from "../../src/ledger/schema.ts";

export interface Clock {
  /** Moves the time on, for every session of this database. */
  advance(ms: number): Promise<void>;
  /** Stops the time, which from then on moves by `advance` alone. */
  freeze(): Promise<void>;
  /** The ledger's time, in ms since 1970. */
  now(): Promise<number>;
}

export async function fakeClock(database: Queryable, schema = "onceward"): Promise<Clock> {
  const quoted = quoteIdentifier(schema);
  await database.query(
    `create table if not exists ${quoted}.test_clock (ahead interval not null, still timestamptz)`,
  );
  await database.query(
    `insert into ${quoted}.test_clock select '0' where not exists (select from ${quoted}.test_clock)`,
  );
  await database.query(
    `create or replace function ${quoted}.now() returns timestamptz language sql volatile parallel safe
     as $fn$ select coalesce(still, clock_timestamp()) + ahead from ${quoted}.test_clock $fn$`,
  );
  return {
    async advance(ms) {
      await database.query(`update ${quoted}.test_clock set ahead = ahead + ($1::text)::interval`, [
        `${ms} milliseconds`,
      ]);
    },
    async freeze() {
      await database.query(`update ${quoted}.test_clock set still = clock_timestamp() where still is null`);
    },
    async now() {
      const { rows } = await database.query(
        `select to_jsonb(extract(epoch from ${quoted}.now()) * 1000) as ms`,
      );
      return Number(rows[0]?.["ms"]);
    },
  };
}
