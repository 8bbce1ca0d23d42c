import { existsSync, readFileSync } from "node:fs";
import pg from "pg";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Variant } from "../variant.ts";

const QUEUE = "bench";
const CONNECTIONS = 32;
/** It polls; its default of a quarter of a second would measure nothing else. */
const POLL_SECONDS = 0.01;

/** Its schema is not in its npm package: sql/absurd.sql of the same release, from its repository. */
const schema = process.env["ABSURD_SQL"];

export const absurd: Variant = {
  title: "absurd",
  kind: "peer",
  store: "postgres",
  modes: ["receive", "jobs", "handle", "steps"],
  package: "absurd-sdk",
  load: () => import("absurd-sdk"),
  backlog: 2_000,
  notes:
    "64 concurrent tasks, polled every 10 ms, the event's id as idempotency key. The handler's row commits before its step.",
  missing: () =>
    schema && existsSync(schema) ? undefined : "set ABSURD_SQL to sql/absurd.sql of its release",
  prepare: ({ database }) =>
    withClient(database, async (client) => {
      await client.query(orderTable);
      await client.query(readFileSync(schema!, "utf8"));
      await client.query("select absurd.create_queue($1)", [QUEUE]);
    }),
  async open(setup) {
    const { Absurd } = await import("absurd-sdk");
    const pool = new pg.Pool({ connectionString: setup.database, max: CONNECTIONS });
    const app = new Absurd({ db: pool, queueName: QUEUE });
    app.registerTask({ name: "bench" }, async (event: StripeEvent, context) => {
      setup.started(event.id);
      if (setup.mode === "handle") {
        await context.step("order", () => pool.query(insertOrder, [event.id, event.type]).then(() => 1));
      }
      if (setup.mode === "steps") {
        for (const name of ["one", "two", "three"]) await context.step(name, async () => 1);
      }
      setup.finished(event.id);
    });
    return {
      enqueue: (event) => app.spawn("bench", event, { idempotencyKey: event.id }),
      start: () => app.startWorker({ concurrency: 64, pollInterval: POLL_SECONDS }),
      async unfinished() {
        const { rows } = await pool.query(
          `select count(*) from absurd.t_${QUEUE} where state not in ('completed', 'failed', 'cancelled')`,
        );
        return Number(rows[0].count);
      },
      async close() {
        await app.close();
        await pool.end();
      },
    };
  },
};
