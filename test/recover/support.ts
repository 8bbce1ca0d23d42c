/** What the tests of recovery share: an application over a database, whose clock they can move. */
import pg from "pg";
import { afterAll, beforeAll } from "vitest";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import { createOnce, type Once } from "../../src/once.ts";
import { stripe } from "../../src/source/stripe.ts";
import { SECRET } from "../handler/support.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith, type Which } from "../support/postgres.ts";
import { urlOf } from "../ledger/support.ts";

export interface OnCall {
  readonly url: string;
  readonly once: Once<PgClient>;
  readonly clock: Clock;
  /** A number that a query answers with. */
  count(sql: string): Promise<number>;
  /** So many dead events of a lane, each with its payload, recorded a millisecond apart. */
  addDead(lane: string, n: number, type?: string): Promise<void>;
}

/** One database for the tests of a `describe`. Handlers write into `effect`, which allows doubles on purpose. */
export function describeOnCall(which: Which, name: string, body: (bench: () => OnCall) => void): void {
  describeWith(which, `${name} (${which} Postgres)`, (fresh) => {
    let bench: OnCall | undefined;
    let pool: pg.Pool | undefined;
    beforeAll(async () => {
      const url = urlOf(fresh);
      if (url === undefined) return;
      pool = new pg.Pool({ connectionString: url, max: 10 });
      bench = await open(url, pool);
    });
    afterAll(async () => {
      await bench?.once.stop();
      await pool?.end();
    });
    body(() => bench!);
  });
}

async function open(url: string, pool: pg.Pool): Promise<OnCall> {
  const once = createOnce({ database: pgDatabase(pool), pollMs: 50 });
  const { database } = once;
  await database.query("create table effect (event text not null)");
  once
    .source(stripe({ secrets: SECRET }), { answer: "queued", worker: "elsewhere" })
    .on("invoice.paid", async ({ event, tx }) => {
      await tx.query("insert into effect (event) values ($1)", [event.id]);
    })
    .on("invoice.updated", async ({ event, tx, once: takes }) => {
      await tx.query("insert into effect (event) values ($1)", [`${event.id} seen`]);
      if (await takes(`void:${event.id}`))
        await tx.query("insert into effect (event) values ($1)", [`${event.id} voided`]);
    });
  await once.engine.ready();
  return {
    url,
    once,
    clock: await fakeClock(database),
    async count(sql) {
      const { rows } = await database.query(`select to_jsonb((${sql})) as n`);
      return Number(rows[0]?.["n"]);
    },
    async addDead(lane, n, type = "invoice.paid") {
      await database.query(
        `insert into onceward.task (created_at, started_at, finished_at, state, attempt, tries, scope, key, type, reason)
         select at + i * interval '1 ms', at, at, 'dead', 30, 30, '${lane}', 'evt_' || i, '${type}', 'No such price: price_' || i
         from generate_series(1, ${n}) as i, (select onceward.now() - interval '1 hour' as at offset 0) c`,
      );
      await database.query(
        `insert into onceward.payload (scope, key, body)
         select t.scope, t.key, json_build_object('id', t.key, 'object', 'event', 'type', t.type, 'created', 1750000000,
           'livemode', true, 'data', json_build_object('object', json_build_object('id', 'in_' || t.key)))::text
         from onceward.task t where t.scope = '${lane}' and t.state = 'dead'
         on conflict do nothing`,
      );
    },
  };
}
