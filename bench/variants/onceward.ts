/** The library as its users have it: a source, a job, a worker in the same process. */
import type { Database } from "../../src/database/database.ts";
import type { PgClient } from "../../src/database/pg.ts";
import type { AnswerMode } from "../../src/handler/handler.ts";
import { insertOrder, insertOrders, orderTable, withClient } from "../database.ts";
import { secret, type StripeEvent } from "../event.ts";
import type { Running, Setup, Variant } from "../variant.ts";
import { seedLedger } from "./seed.ts";

/** As many as the peers are given. */
const CONCURRENCY = 64;
/** As many as what is written by hand, and most peers: a handler's transaction holds one. */
const CONNECTIONS = 32;

export const onceward: Variant = {
  title: "Onceward",
  kind: "onceward",
  store: "postgres",
  modes: ["receive", "jobs", "handle", "steps"],
  backlog: 100_000,
  load,
  notes:
    "64 tasks at once over up to 32 connections, everything else by default. The handler's row, its effect keys, jobs and completion commit together; " +
    "finished tasks stay known. Before a storm `once.warmUp()`, as `onceward serve` does.",
  async prepare({ database }) {
    await withClient(database, (client) => client.query(orderTable));
    await migrated(database);
  },
  async seed(database, rows) {
    await seedLedger(database, rows);
  },
  open: (setup) => library(setup, setup.database),
};

/** Only where it is compared with the default: its senders wait, and the others' do not. */
export const inline: Variant = {
  ...onceward,
  title: "Onceward, answering inline",
  modes: [],
  notes:
    "As Onceward, but the sender waits for its handler; a duplicate waits for it too, without a connection.",
  open: (setup) => library(setup, setup.database, { answer: "inline" }),
};

/** A handler of several events, as one writes it where many come. */
export const together: Variant = {
  ...onceward,
  title: "Onceward, up to 100 events together",
  modes: ["handle"],
  notes:
    "As Onceward, with `{ together: 100 }`: the events that come while a transaction is under way share the next one, in which the " +
    "handler writes their rows by one statement; rows and completions commit together.",
  open: (setup) => library(setup, setup.database, { together: 100 }),
};

export const embedded: Variant = {
  title: "Onceward, embedded",
  kind: "onceward",
  store: "pglite",
  modes: ["receive", "jobs", "handle", "steps"],
  backlog: 5_000,
  load,
  notes: "The embedded Postgres in this process, which does not wait for the disk.",
  async prepare({ database: folder }) {
    const { embeddedDatabase } = await load();
    const database = embeddedDatabase({ folder, log: () => undefined });
    await database.query(orderTable);
    await migrated(database);
  },
  async open(setup) {
    const { embeddedDatabase } = await load();
    const database = embeddedDatabase({ folder: setup.database, log: () => undefined });
    return library(setup, database);
  },
};

async function load() {
  const [{ createOnce }, { nodeHandler }, { stripe }, { embeddedDatabase }, { pgDatabase }] =
    await Promise.all([
      import("../../src/once.ts"),
      import("../../src/receive/node.ts"),
      import("../../src/source/stripe.ts"),
      import("../../src/database/embedded.ts"),
      import("../../src/database/pg.ts"),
    ]);
  return { createOnce, nodeHandler, stripe, embeddedDatabase, pgDatabase };
}

async function migrated(database: string | Database<PgClient>): Promise<void> {
  const { createOnce } = await load();
  const once = createOnce({ database });
  await once.engine.ready();
  await once.stop();
}

async function library(
  setup: Setup,
  database: string | Database<PgClient>,
  { answer, together }: { answer?: AnswerMode; together?: number } = {},
): Promise<Running> {
  const { createOnce, nodeHandler, stripe, pgDatabase } = await load();
  const once = createOnce({
    database: typeof database === "string" ? pgDatabase(database, { max: CONNECTIONS }) : database,
    concurrency: CONCURRENCY,
  });
  const { mode, started, finished, work } = setup;
  const job = once.job("bench", async ({ input, step }: { input: StripeEvent; step: Steps }) => {
    started(input.id);
    if (mode === "steps") for (const name of ["one", "two", "three"]) await step(name, () => 1);
    finished(input.id);
  });
  const billing = once.source(
    stripe({ secrets: [secret] }),
    mode === "receive" ? { worker: "elsewhere" } : { answer },
  );
  if (together === undefined) {
    billing.on("charge.succeeded", async ({ event, tx }) => {
      started(event.id);
      await work?.(event.id);
      await tx.query(insertOrder, [event.id, event.type]);
      finished(event.id);
    });
  } else {
    billing.on("charge.succeeded", { together }, async ({ events, tx }) => {
      for (const { event } of events) started(event.id);
      const [ids, types] = [events.map(({ event }) => event.id), events.map(({ event }) => event.type)];
      await tx.query(insertOrders, [ids, types]);
      for (const { event } of events) finished(event.id);
    });
  }
  await once.engine.ready();
  const lane = mode === "receive" || mode === "handle" ? billing.name : job.scope;
  return {
    enqueue: (event) => once.enqueue(job, event, { key: event.id }),
    warmUp: () => once.warmUp(),
    start: () => once.start(),
    listener: nodeHandler(billing),
    async unfinished() {
      const { rows } = await once.database.query(
        "select count(*) from onceward.task where due_at is not null and (scope = $1 or scope like $1 || '/%')",
        [lane],
      );
      return Number(rows[0]!["count"]);
    },
    close: () => once.stop(),
  };
}

type Steps = (name: string, fn: () => number) => Promise<number>;
