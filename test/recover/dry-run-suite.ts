/** What a dry run promises, over any database. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import type { Database } from "../../src/database/database.ts";
import type { PgClient } from "../../src/database/pg.ts";
import type { JobTools } from "../../src/job/job.ts";
import { createOnce, type Once } from "../../src/once.ts";
import { dryRun, type DryRunOptions, type DryRunReport } from "../../src/recover/dry-run/dry-run.ts";
import { stripe } from "../../src/source/stripe.ts";
import type { Engine } from "../../src/worker/engine.ts";
import { event, SECRET } from "../handler/support.ts";

const tables = `
  create table product (id text primary key, stock int not null);
  create table orders (id text primary key, product text not null references product, email text, n bigint generated always as identity);
  create table cart (owner text, item int, primary key (owner, item));
  create table note (text text);
  create table paid (id text primary key, product text references product deferrable initially deferred);
  create table kept (id int primary key, value text);
  create table post (id bigint primary key, size numeric, tags jsonb);
  insert into product values ('book', 10), ('pen', 5);
  insert into kept values (1, 'one'), (2, 'two');
  insert into post values (9007199254740992, 1, '[]'), (9007199254740994, 0.12345678901234567, '[9007199254740992]');
`;

/** `brief`: only what depends on the version of Postgres. */
export function dryRunSuite(
  open: () => Promise<{ database: Database<PgClient>; close(): Promise<void> }>,
  brief = false,
): void {
  let once: Once;
  let close: () => Promise<void>;
  const server = createServer((req, res) => {
    outside.push(req.url ?? "");
    res.end();
  });

  beforeAll(async () => {
    const opened = await open();
    for (const statement of tables.split(";").filter((text) => text.trim() !== ""))
      await opened.database.query(statement);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    once = app(opened.database, (server.address() as AddressInfo).port);
    close = async () => {
      await once.stop();
      await opened.close();
    };
  });
  beforeEach(() => {
    release = undefined;
    outside.length = 0;
  });
  afterAll(async () => {
    await close?.();
    server.close();
  });

  /** Records an event and leaves it to others to run it. */
  const record = async (type: string, object: Record<string, unknown> = {}) => {
    const id = `obj_${randomBytes(6).toString("hex")}`;
    const made = event(type, { data: { object: { id, ...object } } });
    const { scope, key } = await once.sources.get("stripe")!.take(Buffer.from(JSON.stringify(made)));
    return { scope, key, id };
  };

  /** A dry run, after which every table holds what it held before. */
  const dry = async (
    task: { scope: string; key: string },
    options?: DryRunOptions,
  ): Promise<DryRunReport> => {
    const before = await checksums(once.database);
    const report = await dryRun(once.engine as Engine, task, { limit: "60 seconds", ...options });
    expect(await checksums(once.database)).toEqual(before);
    expect(before.size).toBeGreaterThan(15);
    return report;
  };

  it("says which rows would be inserted, changed and deleted, and who would be called", async () => {
    const { id, ...task } = await record("checkout.session.completed");
    await once.database.query(
      "insert into cart values ($1, 1), ($1, 2), ('other', 1) on conflict do nothing",
      [id],
    );
    const report = await dry(task);
    expect(report).toMatchObject({ outcome: "done", type: "checkout.session.completed", handlers: [] });
    expect(report.tables).toEqual([
      {
        table: "public.cart",
        more: false,
        rows: [
          { change: "deleted", key: { owner: id, item: 1 } },
          { change: "deleted", key: { owner: id, item: 2 } },
        ],
      },
      { table: "public.note", more: false, rows: [{ change: "inserted", key: null }] },
      { table: "public.orders", more: false, rows: [{ change: "inserted", key: { id } }] },
      {
        table: "public.product",
        more: false,
        rows: [{ change: "changed", key: { id: "book" }, columns: ["stock"] }],
      },
    ]);
    expect(report.calls).toEqual([
      { call: "effect key", key: `order:${id}`, taken: true },
      { call: "enqueue", scope: "job/send", key: id, outcome: "enqueued" },
    ]);
    expect(report.sequences).toEqual(["public.orders_n_seq"]);
    // Neither a value of a column nor an input is in it unless it was asked for.
    expect(JSON.stringify(report)).not.toContain("@");
  });

  it("shows values where they were asked for", async () => {
    const { id, ...task } = await record("checkout.session.completed");
    const { tables: changes, calls } = await dry(task, { values: true });
    expect(changes.find(({ table }) => table === "public.orders")?.rows[0]).toMatchObject({
      after: { id, email: "ada@example.com", product: "book" },
    });
    expect(changes.find(({ table }) => table === "public.product")?.rows[0]).toMatchObject({
      before: { stock: 10 },
      after: { stock: 9 },
    });
    expect(calls[1]).toMatchObject({ input: JSON.stringify({ email: "ada@example.com" }) });
  });

  it("sees what a released savepoint wrote, and not what one wrote that was rolled back", async () => {
    const { key, scope } = await record("customer.updated");
    const { tables: changes } = await dry({ scope, key }, { values: true });
    expect(changes).toMatchObject([
      {
        table: "public.kept",
        rows: [
          { change: "changed", key: { id: 1 }, before: { value: "one" }, after: { value: "uno" } },
          { change: "deleted", key: { id: 2 }, before: { value: "two" } },
        ],
      },
    ]);
    expect(changes).toHaveLength(1);
  });

  it("tells numbers apart that JavaScript does not", async () => {
    const { tables: changes } = await dry(await record("product.created"), { values: true });
    expect(changes).toMatchObject([
      {
        table: "public.post",
        rows: [
          {
            change: "inserted",
            key: { id: "9007199254740993" },
            after: { id: "9007199254740993", size: 2, tags: [] },
          },
          {
            change: "changed",
            key: { id: "9007199254740994" },
            columns: ["size", "tags"],
            before: { size: "0.12345678901234567" },
            after: { size: "0.12345678901234568" },
          },
        ],
      },
    ]);
  });

  it("runs each handler of an event that has several", async () => {
    const task = await record("charge.refunded");
    const report = await dry(task);
    expect(report.handlers).toMatchObject([
      { scope: "stripe/#first", outcome: "done" },
      { scope: "stripe/#second", outcome: "failed", reason: "the second is broken" },
    ]);
    expect(report).toMatchObject({ outcome: "failed", reason: "the second is broken" });
    expect(report.tables).toMatchObject([{ table: "public.note", rows: [{ change: "inserted" }] }]);
  });

  it("finds what would only fail at the commit", async () => {
    const report = await dry(await record("payout.paid"));
    expect(report).toMatchObject({ outcome: "failed", tables: [] });
    expect(report.reason).toContain("paid");
  });

  if (brief) return;

  it("says that a handler would fail, and why", async () => {
    const report = await dry(await record("invoice.paid"));
    expect(report).toMatchObject({ outcome: "failed", reason: "no such invoice", tables: [], calls: [] });
  });

  it("refuses a connection that a handler opens, and names it", async () => {
    const report = await dry(await record("charge.failed"));
    expect(report.outcome).toBe("failed");
    expect(report.calls).toEqual([
      { call: "connection", to: `127.0.0.1:${(server.address() as AddressInfo).port}` },
    ]);
    expect(outside).toEqual([]);
  });

  it("refuses them a while longer than it runs, and not for ever: a client may have been made in it", async () => {
    await dry(await record("source.chargeable"));
    const connects = client!;
    await expect(connects()).rejects.toMatchObject({ cause: { code: "dry_run" } });
    const { now } = performance;
    const later = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 11_000);
    try {
      await connects();
    } finally {
      later.mockRestore();
    }
    expect(outside).toEqual(["/client"]);
  });

  it("does not take actions", async () => {
    const report = await dry(await record("coupon.created"));
    expect(report).toMatchObject({ outcome: "failed", reason: "A dry run does not run action charge:1." });
    expect(outside).toEqual([]);
  });

  it("leaves alone what is done, unless it is asked for a new generation", async () => {
    const task = await record("customer.created");
    const claimed = await once.engine.ledger.verbs.claim(task, { leaseMs: 60_000, worker: "test" });
    if (!("task" in claimed)) throw new Error("not claimed");
    await once.engine.ledger.complete({ scope: task.scope, key: task.key, attempt: claimed.attempt });
    expect(await dry(task)).toMatchObject({ outcome: "nothing", tables: [] });
    expect(await dry(task, { again: true })).toMatchObject({
      outcome: "done",
      tables: [{ table: "public.note" }],
    });
  });

  it("knows nothing of what is not there", async () => {
    expect(await dry({ scope: "stripe", key: "evt_none" })).toMatchObject({
      outcome: "nothing",
      reason: "there is no such task",
    });
  });

  it("stops a job at its first step that calls the world outside, with the transactions before it", async () => {
    const task = await once.enqueue({ name: "send" }, { email: "ada@example.com" }, { key: "job-1" });
    const report = await dry(task);
    expect(report).toMatchObject({ outcome: "stops", reason: 'it would go on with the step "mail"' });
    expect(report.tables).toMatchObject([{ table: "public.note", rows: [{ change: "inserted" }] }]);
    expect(report.calls).toEqual([
      { call: "enqueue", scope: "job/other", key: expect.any(String), outcome: "enqueued" },
      { call: "step", name: "mail", key: expect.any(String) },
    ]);
    expect(outside).toEqual([]);
  });

  it("keeps what a job does outside of its steps, through Onceward, from being done", async () => {
    const task = await once.enqueue({ name: "careless" }, {}, { key: "job-2" });
    const report = await dry(task);
    expect(report).toMatchObject({ outcome: "waits", reason: "it would wait for the signal go" });
    expect(report.tables).toMatchObject([
      { table: "public.note", rows: [{ change: "inserted" }, { change: "inserted" }] },
    ]);
    expect(report.calls).toMatchObject([{ call: "enqueue", scope: "job/other", key: "from-careless" }]);
  });

  it("counts what is too large to look at", async () => {
    const { tables: changes } = await dry(await record("customer.created"), { maxTableBytes: -1 });
    expect(changes).toMatchObject([
      { table: "public.note", rows: [], unseen: { why: "too large", inserts: 1 } },
    ]);
  });

  it("ends after its limit, and does nothing that comes later", async () => {
    const task = await record("radar.early_fraud_warning.created");
    const before = await checksums(once.database);
    // On a busy machine the handler may not have begun when the limit has passed.
    for (let limit = 100; !release; limit *= 2) {
      const run = dryRun(once.engine as Engine, task, { limit });
      await expect(run).rejects.toMatchObject({ code: "deadline_passed" });
    }
    release();
    for (const late of tooLate) await expect(late).rejects.toThrow(/dry run that is over|closed/);
    expect(await checksums(once.database)).toEqual(before);
  });
}

/** What happened outside of the database. */
const outside: string[] = [];
/** Connects in the async context of the handler that made it. */
let client: (() => Promise<unknown>) | undefined;
let release: (() => void) | undefined;
let tooLate: readonly Promise<unknown>[];

/** An application whose handlers do all that handlers do, and some that they should not. */
function app(database: Database<PgClient>, port: number): Once {
  const once = createOnce({ database });
  const billing = once.source(stripe({ secrets: SECRET }), { answer: "queued", worker: "elsewhere" });
  const other = once.job("other", () => undefined);
  const send = once.job("send", async ({ input, step, enqueue }: JobTools<{ email: string }, PgClient>) => {
    await step.transaction("note", async (tx) => {
      await tx.query("insert into note values ($1)", [input.email]);
    });
    await enqueue(other, {});
    await step("mail", () => fetch(`http://127.0.0.1:${port}/mail`));
    await step("never", () => undefined);
  });
  once.job("careless", async ({ step }) => {
    await once.database.query("insert into note values ('by the database')");
    await once.database.transaction((tx) => tx.query("insert into note values ('by its transaction')"));
    await once.enqueue(other, {}, { key: "from-careless" });
    await step.waitFor("go");
  });
  billing
    .on("checkout.session.completed", async ({ event: { data }, tx, enqueue, once: take }) => {
      const { id } = data.object;
      if (!(await take(`order:${id}`))) return;
      await tx.query("select * from product where id = 'pen' for update");
      await tx.query("insert into orders (id, product, email) values ($1, 'book', 'ada@example.com')", [id]);
      await tx.query("update product set stock = stock - 1 where id = 'book'");
      await tx.query("delete from cart where owner = $1", [id]);
      await tx.query("insert into note values ('ordered')");
      await enqueue(send, { email: "ada@example.com" }, { key: id });
    })
    .on("customer.updated", async ({ tx }) => {
      await tx.query("select * from kept for update");
      await tx.query("savepoint a");
      await tx.query("update kept set value = 'uno' where id = 1");
      await tx.query("delete from kept where id = 2");
      await tx.query("release savepoint a");
      await tx.query("savepoint b");
      await tx.query("insert into note values ('undone')");
      await tx.query("rollback to savepoint b");
    })
    .on("product.created", async ({ tx }) => {
      await tx.query("insert into post values (9007199254740993, 2, '[]')");
      await tx.query(`update post set size = 0.12345678901234568, tags = '[9007199254740993]'
        where id = 9007199254740994`);
    })
    .on("customer.created", ({ tx }) => tx.query("insert into note values ('hello')"))
    .on("charge.refunded", { name: "first" }, ({ tx }) => tx.query("insert into note values ('first')"))
    .on("charge.refunded", { name: "second" }, async ({ tx }) => {
      await tx.query("insert into note values ('second')");
      throw new Error("the second is broken");
    })
    .on("payout.paid", ({ tx }) => tx.query("insert into paid values ('x', 'no such product')"))
    .on("invoice.paid", async ({ tx, once: take }) => {
      await take("invoice");
      await tx.query("insert into note values ('before it fails')");
      throw new Error("no such invoice");
    })
    .on("coupon.created", () => once.run("charge:1", () => void outside.push("charged")))
    .on("charge.failed", () => fetch(`http://127.0.0.1:${port}/charge`))
    .on("source.chargeable", async () => {
      const here = AsyncLocalStorage.snapshot();
      client = () => here(() => fetch(`http://127.0.0.1:${port}/client`));
    })
    .on("radar.early_fraud_warning.created", async ({ tx }) => {
      const released = new Promise<void>((resolve) => (release = resolve));
      tooLate = [
        released.then(() => once.database.query("insert into note values ('too late')")),
        // By then its connection serves others.
        released.then(() => tx.query("insert into note values ('too late, by tx')")),
      ];
      await Promise.all(tooLate);
    });
  return once;
}

/** How many rows each table holds, of every schema, and a sum over them. */
async function checksums(database: Database<PgClient>): Promise<Map<string, string>> {
  const { rows } = await database.query(
    `select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_catalog.pg_tables
     where schemaname not in ('pg_catalog', 'information_schema') order by 1`,
  );
  const sums = new Map<string, string>();
  for (const { name } of rows) {
    const found = await database.query(
      `select count(*)::text || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as sum from ${String(name)} t`,
    );
    sums.set(String(name), String(found.rows[0]?.["sum"]));
  }
  return sums;
}
