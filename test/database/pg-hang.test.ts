/** Connections over which nothing comes any more, and nobody is told: something on the way has forgotten them. */
import { expect, it, type TestContext } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase, type PgClient, type PgOptions } from "../../src/database/pg.ts";
import { Proxy } from "../faults/proxy.ts";
import { Random } from "../faults/random.ts";
import { describeWith } from "../support/postgres.ts";
import { gate } from "../worker/support.ts";

/** Long for a statement that is answered, on any machine; one that hangs makes a test wait for so long. */
const answerTimeoutMs = 4_000;

describeWith("oldest", "a connection that hangs", (fresh) => {
  async function open(
    { onTestFinished }: TestContext,
    options: PgOptions,
  ): Promise<{ proxy: Proxy; database: Database<PgClient> }> {
    const proxy = await Proxy.start(Number(new URL(fresh().url).port), new Random(1));
    onTestFinished(() => proxy.close());
    const database = pgDatabase(proxy.through(fresh().url), options);
    onTestFinished(() => database.close());
    return { proxy, database };
  }

  // Side by side: all they do is wait.
  it.concurrent("is given up when a statement has no answer in time, and so are all that hang with it", async (context) => {
    const { proxy, database } = await open(context, { max: 4, answerTimeoutMs });
    const used = Array.from({ length: 4 }, () => database.query("select 1 from pg_sleep(0.2)"));
    await Promise.all(used);
    proxy.hang();
    await expect(database.query("select 1")).rejects.toMatchObject({
      code: "database_unavailable",
      status: 503,
      message: expect.stringContaining("did not answer"),
    });
    // The other three are not tried one after another.
    await expect(database.query("select 'new' as it")).resolves.toEqual({ rows: [{ it: "new" }] });
    await expect(database.transaction(async () => "new")).resolves.toBe("new");
  });

  it.concurrent("at the commit means that nobody knows, and is no success", async (context) => {
    const { proxy, database } = await open(context, { max: 1, answerTimeoutMs });
    const running = database.transaction(async (tx) => {
      await tx.query("select 1");
      proxy.hang();
      return "done";
    });
    await expect(running).rejects.toMatchObject({ code: "database_unavailable" });
    await expect(database.query("select 'new' as it")).resolves.toEqual({ rows: [{ it: "new" }] });
  });

  it.concurrent("is given back when the run that holds it was given up", async (context) => {
    const { proxy, database } = await open(context, { max: 1, answerTimeoutMs: 0 });
    const controller = new AbortController();
    const running = database.transaction(
      async (tx) => {
        await tx.query("select 1");
        proxy.hang();
        setImmediate(() => controller.abort(new Error("the lease could not be renewed")));
        await tx.query("select 1");
      },
      { signal: controller.signal },
    );
    await expect(running).rejects.toMatchObject({ code: "database_unavailable" });
    await expect(database.query("select 'new' as it")).resolves.toEqual({ rows: [{ it: "new" }] });
  });

  it.concurrent("holds no lock for ever: Postgres ends its transaction", async (context) => {
    const { proxy, database } = await open(context, {
      max: 1,
      answerTimeoutMs: 0,
      idleTransactionTimeoutMs: 2_000,
    });
    await database.query("create table taken (key text primary key)");
    const take = "insert into taken values ('one') on conflict do nothing returning key";
    const locked = gate();
    const cutOff = new AbortController();
    const running = database.transaction(
      async (tx) => {
        await tx.query(take);
        proxy.hang();
        locked.open();
        await tx.query("select 1");
      },
      { signal: cutOff.signal },
    );
    await locked.promise;
    const other = pgDatabase(fresh().url);
    context.onTestFinished(() => other.close());
    // Waits for the one who has it.
    await expect(other.query(take)).resolves.toEqual({ rows: [{ key: "one" }] });
    cutOff.abort();
    await expect(running).rejects.toMatchObject({ code: "database_unavailable" });
  });

  it.concurrent("is no statement of yours that takes long, and no migration", async (context) => {
    const { database } = await open(context, { max: 2, answerTimeoutMs });
    const late = `select 'late' as it from pg_sleep(${(answerTimeoutMs + 500) / 1_000})`;
    const [yours, patient] = await Promise.all([
      database.transaction((tx) => tx.query(late)),
      database.transaction((_, ledger) => ledger.query(late), { patient: true }),
    ]);
    expect([yours.rows, patient.rows]).toEqual([[{ it: "late" }], [{ it: "late" }]]);
  });
});
