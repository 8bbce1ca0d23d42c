import { drizzle } from "drizzle-orm/node-postgres";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { afterEach, describe, expect, it } from "vitest";
import { defineJob } from "../../src/job/define.ts";
import { enqueue } from "../../src/job/enqueue.ts";
import type { JobTools } from "../../src/job/job.ts";
import type { EngineOptions } from "../../src/worker/engine.ts";
import { describeWith } from "../support/postgres.ts";
import { countOf, gate, noPoll } from "../worker/support.ts";
import { type JobEngine, jobEngine } from "./support.ts";

describeWith("newest", "enqueueing", (database) => {
  const open: JobEngine[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  const make = (options?: EngineOptions): JobEngine => {
    const made = jobEngine(database().url, options);
    open.push(made);
    return made;
  };

  it("the same key twice is one task, and the second call is told so", async () => {
    const one = make();
    const job = defineJob(one.engine, "dedupe", () => undefined);
    await one.engine.start();
    const first = await enqueue(one.engine, job, 1, { key: "order 1" });
    expect(first).toEqual({ outcome: "enqueued", scope: "job/dedupe", key: "order 1" });
    expect(await enqueue(one.engine, job, 1, { key: "order 1" })).toEqual({ ...first, outcome: "duplicate" });
    await one.history.ended(1);
    expect(await enqueue(one.engine, job, 1, { key: "order 1" })).toMatchObject({ outcome: "duplicate" });
    expect(one.history.ran).toHaveLength(1);
  });

  it("what is known and due is a duplicate, also where this call has it run", async () => {
    const elsewhere = jobEngine(database().url, { listen: false });
    const here = jobEngine(database().url, { listen: false, pollMs: noPoll });
    open.push(elsewhere, here);
    const job = defineJob(here.engine, "known", () => undefined);
    await here.engine.start();
    expect(await enqueue(elsewhere.engine, { name: "known" }, 1, { key: "k" })).toMatchObject({
      outcome: "enqueued",
    });
    expect(await enqueue(here.engine, job, 1, { key: "k" })).toMatchObject({ outcome: "duplicate" });
    await here.history.ended(1);
  });

  it("takes the key that the job makes of its input", async () => {
    const one = make();
    const job = defineJob(
      one.engine,
      "keyed",
      { key: ({ order }) => `order ${order}` },
      ({ key }: JobTools<{ order: number }>) => key,
    );
    expect(await enqueue(one.engine, job, { order: 1 })).toMatchObject({
      outcome: "enqueued",
      key: "order 1",
    });
    expect(await enqueue(one.engine, job, { order: 1 })).toMatchObject({
      outcome: "duplicate",
      key: "order 1",
    });
    expect(await enqueue(one.engine, job, { order: 1 }, { key: "other" })).toMatchObject({
      outcome: "enqueued",
    });
  });

  it("without a key makes a new task each time, in the order of time", async () => {
    const one = make();
    const job = defineJob(one.engine, "unkeyed", () => undefined);
    const keys: string[] = [];
    for (let i = 0; i < 200; i++) keys.push((await enqueue(one.engine, job, i)).key);
    expect(new Set(keys).size).toBe(200);
    expect(keys.map((key) => key.slice(0, 12))).toEqual(keys.map((key) => key.slice(0, 12)).toSorted());
  });

  it("with a delay, or at a time, runs then and not before", async () => {
    const one = make({ pollMs: noPoll });
    const job = defineJob(one.engine, "later", { delay: "1 hour" }, () => undefined);
    const due = async (key: string): Promise<number> => {
      const { rows } = await one.watch.database.query(
        "select to_jsonb(extract(epoch from due_at - created_at)) as s from onceward.task where key = $1",
        [key],
      );
      return Math.round(Number(rows[0]?.["s"]));
    };
    expect(await due((await enqueue(one.engine, job, 1)).key)).toBe(3_600);
    expect(await due((await enqueue(one.engine, job, 1, { delay: "3 days" })).key)).toBe(3 * 86_400);
    const at = new Date(Date.now() + 60_000);
    expect(Math.abs((await due((await enqueue(one.engine, job, 1, { at })).key)) - 60)).toBeLessThanOrEqual(
      5,
    );
    await expect(enqueue(one.engine, job, 1, { at, delay: 1 })).rejects.toMatchObject({
      code: "value_invalid",
    });
  });

  it("by name has a job run that another process defines", async () => {
    const [here, there] = [make(), make()];
    const got = gate<unknown>();
    defineJob(there.engine, "elsewhere", ({ input }) => got.open(input));
    await there.engine.start();
    await enqueue(here.engine, { name: "elsewhere" }, { n: 1 });
    expect(await got.promise).toEqual({ n: 1 });
  });

  it("by name follows the definition where it is known", async () => {
    const one = make();
    defineJob(one.engine, "known", { key: (input) => `k ${String(input)}` }, () => undefined);
    expect(await enqueue(one.engine, { name: "known" }, 7)).toMatchObject({ key: "k 7" });
  });

  describe("inside a transaction", () => {
    /** How each library opens one; `fails` has it roll back. */
    const libraries: Record<
      string,
      (url: string, work: (tx: unknown) => Promise<void>, fails: boolean) => Promise<void>
    > = {
      async pg(url, work, fails) {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query("begin");
        await work(client);
        await client.query(fails ? "rollback" : "commit");
        await client.end();
      },
      async "postgres.js"(url, work, fails) {
        const sql = postgres(url, { max: 1 });
        await sql
          .begin(async (tx) => {
            await work(tx);
            if (fails) throw new Error("undo");
          })
          .catch((error: Error) => expect(error.message).toBe("undo"));
        await sql.end();
      },
      async drizzle(url, work, fails) {
        const pool = new pg.Pool({ connectionString: url });
        await drizzle(pool)
          .transaction(async (tx) => {
            await work(tx);
            if (fails) throw new Error("undo");
          })
          .catch((error: Error) => expect(error.message).toBe("undo"));
        await pool.end();
      },
      async kysely(url, work, fails) {
        const db = new Kysely<unknown>({
          dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
        });
        await db
          .transaction()
          .execute(async (tx) => {
            await work(tx);
            if (fails) throw new Error("undo");
          })
          .catch((error: Error) => expect(error.message).toBe("undo"));
        await db.destroy();
      },
    };

    it.each(Object.keys(libraries))("of %s runs it after the commit, or never", async (library) => {
      const one = make({ pollMs: noPoll });
      const order: string[] = [];
      const name = `tx-${library.replace(".", "")}`;
      const job = defineJob(one.engine, name, ({ input }) => void order.push(`ran ${String(input)}`));
      await one.engine.start();
      await one.watch.sentTimes("claim_due_rows", 1);
      const transact = libraries[library]!;
      await transact(
        database().url,
        async (tx) => void (await enqueue(one.engine, job, "undone", { tx })),
        true,
      );
      await transact(
        database().url,
        async (tx) => {
          expect(await enqueue(one.engine, job, "kept", { tx, key: "k" })).toMatchObject({
            outcome: "enqueued",
          });
          expect(await enqueue(one.engine, job, "kept", { tx, key: "k" })).toMatchObject({
            outcome: "duplicate",
          });
          // Nobody can see it yet, so nobody runs it.
          one.engine.worker.wake();
          order.push("commit");
        },
        false,
      );
      // It does not poll: the word came with the commit.
      await one.history.ended(1);
      expect(order).toEqual(["commit", "ran kept"]);
      expect(await countOf(one.watch.database, `scope = '${job.scope}'`)).toBe(1);
    });

    it("refuses what is none, and says what it takes", async () => {
      const one = make();
      const job = defineJob(one.engine, "tx-none", () => undefined);
      await expect(enqueue(one.engine, job, 1, { tx: {} })).rejects.toMatchObject({ code: "config_invalid" });
      expect(await countOf(one.watch.database, "scope = 'job/tx-none'")).toBe(0);
    });
  });

  describe("from inside a job", () => {
    it("makes no second task when the job is tried again", async () => {
      const one = make();
      const ran: string[] = [];
      const child = defineJob(one.engine, "child", ({ input }: JobTools<string>) => void ran.push(input));
      const outcomes: string[][] = [];
      const parent = defineJob(one.engine, "parent", { backoff: { baseMs: 1, capMs: 1 } }, async (tools) => {
        // The second attempt finds the data in another order, and one more among them.
        const inputs = tools.attempt === 1 ? ["a", "b"] : ["new", "b", "a"];
        const answers = [];
        for (const input of inputs) answers.push((await tools.enqueue(child, input)).outcome);
        outcomes.push(answers);
        if (tools.attempt === 1) throw new Error("after the children");
      });
      await one.engine.start();
      const { key } = await enqueue(one.engine, parent, undefined);
      await one.history.ended(5);
      expect(outcomes).toEqual([
        ["enqueued", "enqueued"],
        ["enqueued", "duplicate", "duplicate"],
      ]);
      expect(ran.toSorted()).toEqual(["a", "b", "new"]);
      expect(await countOf(one.watch.database, `cause = 'job/parent ${key}'`)).toBe(3);
    });

    it("tells apart other parents, other jobs, other inputs, other times, other generations", async () => {
      const one = make();
      const jobs = ["c1", "c2"].map((name) =>
        defineJob(one.engine, name, { maxAttempts: 1 }, () => undefined),
      );
      const parent = defineJob(one.engine, "parent-2", async (tools) => {
        for (const job of jobs) {
          for (const input of [1, 2]) {
            for (const delay of [0, "1 hour"]) {
              expect(await tools.enqueue(job, input, { delay })).toMatchObject({ outcome: "enqueued" });
              expect(await tools.enqueue(job, input, { delay })).toMatchObject({ outcome: "duplicate" });
            }
          }
        }
        await tools.enqueue(jobs[0]!, "named", { key: "named" });
      });
      const first = await enqueue(one.engine, parent, undefined);
      await enqueue(one.engine, parent, undefined);
      await one.engine.start();
      await one.history.ended(2 + 2 * 4 + 1);
      const children = "scope in ('job/c1', 'job/c2')";
      expect(await countOf(one.watch.database, children)).toBe(2 * 8 + 1);
      await one.engine.ledger.verbs.replay([first], { again: true });
      one.engine.worker.wake();
      await one.history.ended(2 + 2 * 4 + 1 + 1 + 4);
      expect(await countOf(one.watch.database, children)).toBe(3 * 8 + 1);
    });

    it("commits with the transaction of a step", async () => {
      const one = make();
      const child = defineJob(one.engine, "child-3", () => undefined);
      const parent = defineJob(
        one.engine,
        "parent-3",
        { backoff: { baseMs: 1, capMs: 1 } },
        async ({ step, enqueue: add, attempt }) => {
          await step.transaction("write", async (tx) => {
            await add(child, 1, { tx });
            if (attempt === 1) throw new Error("undo");
          });
        },
      );
      await one.engine.start();
      await enqueue(one.engine, parent, undefined);
      await one.history.ended(3);
      expect(one.history.outcomes()).toEqual(["failed", "done", "done"]);
      expect(await countOf(one.watch.database, "scope = 'job/child-3'")).toBe(1);
    });
  });
});
