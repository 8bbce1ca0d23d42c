import { createHash } from "node:crypto";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Variant } from "../variant.ts";

const QUEUE = "bench";
const CONNECTIONS = 16;
const BATCH = 100;

export const pgBoss: Variant = {
  title: "pg-boss 12",
  kind: "peer",
  store: "postgres",
  modes: ["receive", "jobs", "handle"],
  package: "pg-boss",
  load: () => import("pg-boss"),
  backlog: 100_000,
  notes:
    "LISTEN/NOTIFY on, batches of 100, burst while batches are full, two workers; known ids are refused by the " +
    "primary key. In `handle` its transactional workers: rows of a batch and their completion commit together.",
  prepare: ({ database }) => withClient(database, async (client) => void (await client.query(orderTable))),
  async open(setup) {
    const { PgBoss } = await import("pg-boss");
    const boss = new PgBoss({ connectionString: setup.database, max: CONNECTIONS, useListenNotify: true });
    boss.on("error", (error) => console.error(error));
    await boss.start();
    await boss.createQueue(QUEUE, { notify: true });
    const options = {
      batchSize: BATCH,
      localConcurrency: 2,
      pollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
    };
    return {
      enqueue: (event) => boss.send(QUEUE, event, { id: uuid(event.id) }),
      enqueueMany: (events) =>
        boss.insert(
          QUEUE,
          events.map((event) => ({ id: uuid(event.id), data: event })),
        ),
      start: () =>
        setup.mode === "handle"
          ? boss.work<StripeEvent, void, typeof options & { transactional: true }>(
              QUEUE,
              { ...options, transactional: true },
              async (jobs, tx) => {
                for (const { data } of jobs) {
                  setup.started(data.id);
                  await tx.executeSql(insertOrder, [data.id, data.type]);
                  setup.finished(data.id);
                }
              },
            )
          : boss.work<StripeEvent>(QUEUE, options, async (jobs) => {
              for (const { data } of jobs) setup.started(data.id);
              for (const { data } of jobs) setup.finished(data.id);
            }),
      async unfinished() {
        const { rows } = await boss
          .getDb()
          .executeSql("select count(*) from pgboss.job where state < 'completed'");
        return Number(rows[0].count);
      },
      close: () => boss.stop({ graceful: false }),
    };
  },
};

/** Its ids are UUIDs: one derived from the event's id lets the primary key find duplicates. */
function uuid(id: string): string {
  const hex = createHash("sha256").update(id).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
