import { spawnSync } from "node:child_process";
import pg from "pg";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Setup, Variant } from "../variant.ts";

const CONCURRENCY = 64;

const missing = () =>
  spawnSync("redis-server", ["--version"]).status === 0 ? undefined : "no redis-server on this machine";

const how =
  "64 concurrent jobs, the event's id as job id, finished jobs kept, since a removed one is no longer known.";

export const bullmq: Variant = {
  ...variant("redis"),
  title: "BullMQ on Redis, appendfsync always",
  notes: `${how} The handler's row commits in Postgres, the job in Redis.`,
  missing,
};

export const bullmqPostgres: Variant = {
  ...variant("postgres"),
  title: "BullMQ on Postgres",
  notes: `${how} The handler's row commits before the completion.`,
};

function variant(store: "redis" | "postgres"): Omit<Variant, "title" | "notes"> {
  return {
    kind: "peer",
    store,
    modes: ["receive", "jobs", "handle"],
    package: "bullmq",
    load: () => import("bullmq"),
    backlog: store === "redis" ? 100_000 : 10_000,
    async prepare({ database }) {
      await withClient(database, (client) => client.query(orderTable));
      const { runMigrations } = await import("bullmq");
      if (store === "postgres") await withClient(database, (client) => runMigrations(client));
    },
    async open(setup) {
      // A queue of its own for each database.
      const name = new URL(setup.database).pathname.slice(1);
      const pool = new pg.Pool({ connectionString: setup.database, max: CONCURRENCY / 2 });
      const run = async ({ data }: { data: StripeEvent }) => {
        setup.started(data.id);
        if (setup.mode === "handle") await pool.query(insertOrder, [data.id, data.type]);
        setup.finished(data.id);
      };
      const { queue, work } = await connect(store, setup, name);
      let worker: ReturnType<Work> | undefined;
      await queue.waitUntilReady();
      return {
        enqueue: (event) => queue.add("bench", event, { jobId: event.id }),
        enqueueMany: (events) =>
          queue.addBulk(events.map((event) => ({ name: "bench", data: event, opts: { jobId: event.id } }))),
        async start() {
          worker = work(run);
          await worker.waitUntilReady();
        },
        unfinished: () => queue.getJobCountByTypes("waiting", "active", "delayed", "prioritized"),
        async close() {
          await worker?.close(true);
          await queue.close();
          await pool.end();
        },
      };
    },
  };
}

type Options = { jobId: string };

/** What is used of its classes, which are typed by their backend. */
interface Jobs {
  add(name: string, data: StripeEvent, options: Options): Promise<unknown>;
  addBulk(jobs: { name: string; data: StripeEvent; opts: Options }[]): Promise<unknown>;
  getJobCountByTypes(...types: string[]): Promise<number>;
  waitUntilReady(): Promise<unknown>;
  close(): Promise<unknown>;
}
type Work = (run: (job: { data: StripeEvent }) => Promise<void>) => {
  waitUntilReady(): Promise<unknown>;
  close(force: boolean): Promise<unknown>;
};

async function connect(
  store: "redis" | "postgres",
  setup: Setup,
  name: string,
): Promise<{ queue: Jobs; work: Work }> {
  const { Queue, Worker, createPostgresBackend } = await import("bullmq");
  const concurrency = CONCURRENCY;
  if (store === "postgres") {
    const connection = { connectionString: setup.database, max: CONCURRENCY / 2 };
    return {
      queue: new Queue(name, { connection }, createPostgresBackend) as unknown as Jobs,
      work: (run) => new Worker(name, run, { connection, concurrency }, createPostgresBackend),
    };
  }
  const { hostname: host, port } = new URL(setup.redis);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  return {
    queue: new Queue(name, { connection }) as unknown as Jobs,
    work: (run) => new Worker(name, run, { connection, concurrency }),
  };
}
