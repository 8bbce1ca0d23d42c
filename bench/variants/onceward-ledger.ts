/** The ledger alone, driven as the worker drives it: what the library's own code above it costs is not in here. */
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import type { Database } from "../../src/database/database.ts";
import type { PgClient } from "../../src/database/pg.ts";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Running, Setup, Variant } from "../variant.ts";
import { seedLedger } from "./seed.ts";

const JOBS = "job/bench";
const EVENTS = "stripe";
const CONNECTIONS = 16;
/** Claimed at once where a backlog is drained, and the most that run at a time. */
const CLAIMS = 200;

export const ledger: Variant = {
  title: "Onceward, the ledger alone",
  kind: "onceward",
  store: "postgres",
  modes: ["receive", "jobs", "handle", "steps"],
  backlog: 100_000,
  notes:
    "record, complete and step_save shared by concurrent callers; in `handle`, row and completion commit together.",
  load,
  async prepare({ database }) {
    await withClient(database, (client) => client.query(orderTable));
    const { pgDatabase, migrate } = await load();
    const db = pgDatabase(database, { max: 1 });
    await migrate(db);
    await db.close();
  },
  seed: seedLedger,
  async open(setup) {
    const { pgDatabase, Ledger } = await load();
    const database = pgDatabase(setup.database, { max: CONNECTIONS });
    return drive(new Ledger(database), database, setup);
  },
};

async function load() {
  const [{ pgDatabase }, { Ledger }, { migrate }] = await Promise.all([
    import("../../src/database/pg.ts"),
    import("../../src/ledger/ledger.ts"),
    import("../../src/ledger/migrate.ts"),
  ]);
  return { pgDatabase, Ledger, migrate };
}

function drive(own: Ledger, database: Database, setup: Setup): Running {
  const scope = setup.mode === "receive" ? EVENTS : JOBS;
  const run = runner(own, setup);
  const stop = new AbortController();
  let worker: Promise<void> | undefined;
  return {
    async enqueue(event, bytes) {
      const task = { scope, key: event.id, type: event.type, body: bytes };
      if (setup.mode === "receive") return own.record(task);
      const recorded = await own.recordAndClaim(task);
      if (recorded.outcome === "claimed")
        void run({ scope, key: event.id, attempt: recorded.attempt }, event);
      return recorded;
    },
    enqueueMany: (events) =>
      own.verbs.record(
        events.map((event) => ({ scope, key: event.id, type: event.type, body: JSON.stringify(event) })),
      ),
    async start() {
      worker = (async () => {
        const running = new Set<Promise<void>>();
        while (!stop.signal.aborted) {
          const { tasks } = await own.verbs.claimDue([scope], {
            max: CLAIMS - running.size,
            leaseMs: own.leaseMs,
            worker: own.worker,
          });
          for (const task of tasks) {
            const one = run(task, JSON.parse(String(task.body)) as StripeEvent).finally(() =>
              running.delete(one),
            );
            running.add(one);
          }
          if (running.size >= CLAIMS / 2) await Promise.race(running);
          else if (tasks.length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
        }
      })();
    },
    async unfinished() {
      const { rows } = await database.query(
        "select count(*) from onceward.task where due_at is not null and scope = $1",
        [scope],
      );
      return Number(rows[0]!["count"]);
    },
    async close() {
      stop.abort();
      await worker;
      await database.close();
    },
  };
}

type Claimed = Pick<ClaimedTask, "scope" | "key" | "attempt">;

function runner(own: Ledger, setup: Setup): (claim: Claimed, event: StripeEvent) => Promise<void> {
  return async ({ scope, key, attempt }, event) => {
    const claim = { scope, key, attempt };
    setup.started(key);
    if (setup.mode === "handle") {
      await own.database.transaction(async (tx, queryable) => {
        await (tx as PgClient).query(insertOrder, [event.id, event.type]);
        await own.within(queryable).complete([claim]);
      });
    } else {
      if (setup.mode === "steps") {
        for (const name of ["one", "two", "three"])
          await own.saveStep({ ...claim, name, state: "done", value: "1" });
      }
      const completed = own.complete(claim);
      setup.finished(key);
      await completed;
      return;
    }
    setup.finished(key);
  };
}
