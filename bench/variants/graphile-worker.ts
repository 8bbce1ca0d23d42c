import pg from "pg";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Variant } from "../variant.ts";

/** As in its own performance page. */
const settings = { concurrentJobs: 24, maxPoolSize: 25 };
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

export const graphile = variant("graphile-worker", settings, "24 concurrent jobs, LISTEN/NOTIFY.");
export const graphileBatching = variant(
  "graphile-worker, batching",
  { ...settings, ...batching },
  "24 concurrent jobs, local queue of 500, completions batched, as on its performance page.",
);

function variant(title: string, worker: typeof settings & Partial<typeof batching>, how: string): Variant {
  return {
    title,
    kind: "peer",
    store: "postgres",
    modes: ["receive", "jobs", "handle"],
    package: "graphile-worker",
    load: () => import("graphile-worker"),
    backlog: "localQueue" in worker ? 100_000 : 5_000,
    notes: `${how} Finished jobs are deleted, and a known key with them; the handler's row commits before the completion.`,
    async prepare({ database }) {
      await withClient(database, (client) => client.query(orderTable));
      const { runMigrations } = await import("graphile-worker");
      await runMigrations({ connectionString: database, preset: { worker } });
    },
    async open(setup) {
      const { makeWorkerUtils, run, Logger } = await import("graphile-worker");
      const logger = new Logger(() => () => undefined);
      const pgPool = new pg.Pool({ connectionString: setup.database, max: settings.maxPoolSize });
      const utils = await makeWorkerUtils({ pgPool, logger });
      let stop: (() => Promise<void>) | undefined;
      return {
        enqueue: (event) => utils.addJob("bench", event, { jobKey: event.id, jobKeyMode: "unsafe_dedupe" }),
        enqueueMany: (events) =>
          utils.addJobs(events.map((event) => ({ identifier: "bench", payload: event, jobKey: event.id }))),
        async start() {
          const runner = await run({
            pgPool,
            logger,
            noHandleSignals: true,
            preset: { worker },
            taskList: {
              async bench(payload, helpers) {
                const event = payload as StripeEvent;
                setup.started(event.id);
                if (setup.mode === "handle") {
                  await helpers.withPgClient((client) => client.query(insertOrder, [event.id, event.type]));
                }
                setup.finished(event.id);
              },
            },
          });
          stop = () => runner.stop();
        },
        async unfinished() {
          const { rows } = await pgPool.query("select count(*) from graphile_worker._private_jobs");
          return Number(rows[0].count);
        },
        async close() {
          await stop?.();
          await utils.release();
          await pgPool.end();
        },
      };
    },
  };
}
