import { withClient } from "../database.ts";
import { body } from "../event.ts";

/**
 * Finished and waiting tasks as if this ledger had run for long. Finished ones keep their key and no payload,
 * as after pruning: what claims and records meet is the table of tasks and its indexes.
 */
export async function seedLedger(
  database: string,
  rows: { finished: number; waiting: number },
): Promise<void> {
  await withClient(database, async (client) => {
    const columns =
      "created_at, due_at, started_at, finished_at, attempt, tries, state, scope, key, type, held_by";
    await client.query(
      `insert into onceward.task (${columns})
      select t, null, t, t, 1, 1, 'done', 'job/bench', 'evt_0' || md5(i::text), 'charge.succeeded', '1'
      from generate_series(1, $1::bigint) i, lateral (select now() - interval '30 days' + i * interval '0.1 second' as t) s`,
      [rows.finished],
    );
    await client.query(
      `insert into onceward.task (${columns})
      select now(), now() + interval '1 day', null, null, 0, 0, 'waiting', 'job/bench', 'evt_1' || md5(i::text), 'charge.succeeded', null
      from generate_series(1, $1::bigint) i`,
      [rows.waiting],
    );
    await client.query(
      "insert into onceward.payload (scope, key, body) select scope, key, $1 from onceward.task where due_at is not null",
      [body("evt")],
    );
    await client.query("vacuum analyze onceward.task");
    await client.query("checkpoint");
  });
}
