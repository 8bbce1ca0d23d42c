import { beforeEach, describe, expect, it } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { createOnce } from "../../src/once.ts";
import { dryRun } from "../../src/recover/dry-run/dry-run.ts";
import { stripe } from "../../src/source/stripe.ts";
import type { Engine } from "../../src/worker/engine.ts";
import { event, SECRET } from "../handler/support.ts";
import { createPglite } from "../support/pglite.ts";
import { needsPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { describeWith } from "../support/postgres.ts";
import { gate } from "../worker/support.ts";
import { dryRunSuite } from "./dry-run-suite.ts";

for (const which of ["newest", "oldest"] as const) {
  describeWith(which, `a dry run on the ${which} Postgres`, (server) => {
    dryRunSuite(async () => {
      const database = pgDatabase(server().url);
      return { database, close: async () => {} };
    }, which === "oldest");
  });
}

describe("a dry run on PGlite", () => {
  dryRunSuite(async () => {
    const db = await createPglite();
    return { database: pgliteDatabase(db) as unknown as Database<PgClient>, close: () => db.close() };
  });
});

describeWith("newest", "a dry run beside live traffic", (server) => {
  it("shows nothing of what others write meanwhile, holds nobody up, and is in nobody's way in this process", async () => {
    const live = pgDatabase(server().url);
    await live.query("create table stock (id int primary key, n int)");
    await live.query("insert into stock select i, 0 from generate_series(1, 10) i");
    const once = createOnce({ database: server().url });
    const billing = once.source(stripe({ secrets: SECRET }), { answer: "queued", worker: "elsewhere" });
    const take = (type: string) => billing.take(Buffer.from(JSON.stringify(event(type))));
    const inHandler = gate<void>();
    const othersDone = gate<void>();
    billing.on("charge.refunded", async ({ tx }) => {
      await tx.query("update stock set n = n + 1 where id = 1");
      inHandler.open();
      // Not in one statement with what is recorded for real at the same time.
      await once.enqueue({ name: "later" }, {}, { key: "from the dry run" });
      await othersDone.promise;
    });
    billing.on("invoice.paid", () => undefined);
    const task = await take("charge.refunded");
    const running = dryRun(once.engine as Engine, task, { limit: "60 seconds" });
    await inHandler.promise;
    const recorded = await Promise.all(Array.from({ length: 20 }, () => take("invoice.paid")));
    await live.query("update stock set n = 7 where id = 2");
    await live.query("delete from stock where id = 3");
    await live.query("insert into stock values (11, 0)");
    othersDone.open();
    const report = await running;
    expect(report).toMatchObject({
      outcome: "done",
      tables: [{ table: "public.stock", rows: [{ change: "changed", key: { id: 1 }, columns: ["n"] }] }],
    });
    expect(report.tables[0]?.rows).toHaveLength(1);
    const { verbs } = once.engine.ledger;
    for (const one of recorded) expect(await verbs.look(one)).toMatchObject({ state: "waiting" });
    expect(await verbs.look({ scope: "job/later", key: "from the dry run" })).toBeNull();
    await once.stop();
    await live.close();
  });
});

describeWith("newest", "a dry run behind a pooler in transaction mode", (server) => {
  beforeEach(needsPgBouncer);

  it("finds its rows, and leaves nothing set in the sessions that it used", async () => {
    const bouncer = await startPgBouncer({ upstream: server().url, poolMode: "transaction", poolSize: 1 });
    const once = createOnce({ database: pgDatabase(bouncer.url, { listen: server().url }) });
    const billing = once.source(stripe({ secrets: SECRET }), { answer: "queued", worker: "elsewhere" });
    billing.on("charge.refunded", async ({ tx }) => {
      await tx.query("insert into refund values ('r1')");
      await tx.query("delete from refund where id = 'r0'");
    });
    try {
      await once.database.query("create table refund (id text primary key)");
      await once.database.query("insert into refund values ('r0')");
      const task = await billing.take(Buffer.from(JSON.stringify(event("charge.refunded"))));
      const [one, two] = await Promise.all(
        [1, 2].map(() => dryRun(once.engine as Engine, task, { limit: "60 seconds" })),
      );
      expect(one).toEqual(two);
      expect(one?.tables).toMatchObject([
        {
          table: "public.refund",
          rows: [
            { change: "inserted", key: { id: "r1" } },
            { change: "deleted", key: { id: "r0" } },
          ],
        },
      ]);
      const { rows } = await once.database.query("show lock_timeout");
      expect(rows).toEqual([{ lock_timeout: "0" }]);
    } finally {
      await once.stop();
      await bouncer.stop();
    }
  });
});
