import pg from "pg";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Variant } from "../variant.ts";

const NAME = "bench";
const QUEUE = "bench-queue";
const VERSION = "1";
const CONNECTIONS = 32;
/** Its fastest: the queue is only used where a backlog is drained. */
const POLL_MS = 10;

export const dbos: Variant = {
  title: "DBOS",
  kind: "peer",
  store: "postgres",
  modes: ["receive", "jobs", "handle", "steps"],
  package: "@dbos-inc/dbos-sdk",
  load: () => import("@dbos-inc/dbos-sdk"),
  backlog: 2_000,
  notes:
    "Workflows started directly, so that this process runs them at once, the event's id as workflow id; a queue polled " +
    "every 10 ms where events are only recorded or a backlog is drained. The handler's row commits before its step.",
  async prepare({ database }) {
    await withClient(database, (client) => client.query(orderTable));
    const { DBOS, DBOSClient } = await import("@dbos-inc/dbos-sdk");
    await DBOS.migrate(database);
    const client = await DBOSClient.create({ systemDatabaseUrl: database, applicationName: NAME });
    await client.registerQueue(QUEUE, { workerConcurrency: 200, minPollingIntervalMs: POLL_MS });
    await client.destroy();
  },
  async open(setup) {
    const { DBOS, DBOSClient } = await import("@dbos-inc/dbos-sdk");
    const pool = new pg.Pool({ connectionString: setup.database, max: CONNECTIONS });
    const workflow = DBOS.registerWorkflow(
      async (event: StripeEvent) => {
        setup.started(event.id);
        if (setup.mode === "handle") {
          await DBOS.runStep(() => pool.query(insertOrder, [event.id, event.type]).then(() => 1), {
            name: "order",
          });
        }
        if (setup.mode === "steps") {
          for (const name of ["one", "two", "three"]) await DBOS.runStep(async () => 1, { name });
        }
        setup.finished(event.id);
      },
      { name: NAME },
    );
    const client = await DBOSClient.create({
      systemDatabaseUrl: setup.database,
      systemDatabasePoolSize: CONNECTIONS,
      applicationName: NAME,
    });
    const options = { queueName: QUEUE, workflowName: NAME, appVersion: VERSION };
    let launched = false;
    return {
      enqueue: (event) =>
        launched
          ? DBOS.startWorkflow(workflow, { workflowID: event.id })(event)
          : client.enqueue<typeof workflow>({ ...options, workflowID: event.id }, event),
      async start() {
        DBOS.setConfig({
          name: NAME,
          systemDatabaseUrl: setup.database,
          systemDatabasePoolSize: CONNECTIONS,
          applicationVersion: VERSION,
          logLevel: "error",
        });
        await DBOS.launch();
        launched = true;
      },
      async unfinished() {
        const { rows } = await pool.query(
          "select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')",
        );
        return Number(rows[0].count);
      },
      async close() {
        if (launched) await DBOS.shutdown();
        await client.destroy();
        await pool.end();
      },
    };
  },
};
