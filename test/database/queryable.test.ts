import type { PGlite } from "@electric-sql/pglite";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle } from "drizzle-orm/pglite";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { dryRunnable, dryTransaction } from "../../src/database/dry-run.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { asQueryable } from "../../src/database/queryable.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { createPglite } from "../support/pglite.ts";
import { describeWith } from "../support/postgres.ts";

describe("asQueryable", () => {
  let db: PGlite;
  beforeAll(async () => {
    db = await createPglite();
  });
  afterAll(() => db.close());

  // Every adapter's suite runs through it as well; this is for transactions that the application has opened itself.
  it("runs inside a transaction that the application opened", async () => {
    await db.exec("create table enqueued (id text)");
    await db.transaction(async (tx) => {
      await asQueryable(tx).query("insert into enqueued values ($1::text)", ["rolled back"]);
      await tx.rollback();
    });
    await drizzle({ client: db }).transaction(async (tx) => {
      await asQueryable(tx).query("insert into enqueued values ($1::text)", ["kept"]);
    });
    expect((await db.query("select id from enqueued")).rows).toEqual([{ id: "kept" }]);
  });

  it("returns what is ours already as it is", () => {
    const database = pgliteDatabase(db);
    expect(asQueryable(database)).toBe(database);
    const made = asQueryable(db);
    expect(asQueryable(made)).toBe(made);
  });

  it("takes anything with query(text, params), whether it answers with rows or with { rows }", async () => {
    const seen: unknown[] = [];
    const rows = [{ a: 1 }];
    const entityManager = { query: async (...args: unknown[]) => (seen.push(args), rows) };
    expect(await asQueryable(entityManager).query("select $1", ["x"])).toEqual({ rows });
    expect(await asQueryable({ query: async () => ({ rows }) }).query("select 1")).toEqual({ rows });
    expect(seen).toEqual([["select $1", ["x"]]]);
  });

  it.each([
    undefined,
    null,
    "postgres://user:secret@host/db",
    5,
    {},
    [],
    () => {},
    { query: "not a function" },
  ])("refuses %s and says what it takes", (tx) => {
    let message = "";
    try {
      asQueryable(tx);
    } catch (error) {
      expect(error).toMatchObject({ code: "config_invalid" });
      message = (error as Error).message;
    }
    for (const known of ["pg client", "postgres.js", "PGlite", "Drizzle", "Kysely", "Prisma"]) {
      expect(message).toContain(known);
    }
    expect(message).not.toContain("secret");
  });
});

describeWith("newest", "an application that has replaced the JSON parsers of pg", (fresh) => {
  const oids = [114, 3802];
  const parsers = oids.map((oid) => pg.types.getTypeParser(oid));
  beforeAll(() => oids.forEach((oid) => pg.types.setTypeParser(oid, (text: string) => text)));
  afterAll(() => oids.forEach((oid, i) => pg.types.setTypeParser(oid, parsers[i]!)));

  const ways: Record<string, (pool: pg.Pool) => Database> = {
    pg: (pool) => pgDatabase(pool) as Database,
    Drizzle: (pool) => drizzleDatabase(drizzlePg({ client: pool })) as Database,
    Kysely: (pool) => kyselyDatabase(kysely(pool), { client: pool }) as Database,
    "Kysely without its pool": (pool) => kyselyDatabase(kysely(pool)) as Database,
  };
  const kysely = (pool: pg.Pool): Kysely<object> => new Kysely({ dialect: new PostgresDialect({ pool }) });

  for (const [name, open] of Object.entries(ways)) {
    it(`gets the answers of verbs as they are with ${name}`, async () => {
      const pool = new pg.Pool({ connectionString: fresh().url, max: 3 });
      const database = open(pool);
      await migrate(database);
      const verbs = new Verbs(dryRunnable(database), "onceward");
      const task = { scope: `lane-${name.replaceAll(" ", "-")}`, key: "k", body: '"a text"' };
      const claim = { leaseMs: 60_000, worker: "w" };
      expect(await verbs.record([task])).toEqual([{ outcome: "recorded" }]);

      const { tasks } = await verbs.claimDue([task.scope], { max: 1, ...claim });
      expect(tasks).toMatchObject([{ ...task, attempt: 1, steps: [] }]);
      await verbs.saveSteps([{ ...task, attempt: 1, name: "s", state: "done", value: "1" }]);
      await verbs.fail([{ ...task, attempt: 1, reason: "x", retry: { afterMs: 0 } }]);
      const again = await verbs.claimDue([task.scope], { max: 1, ...claim });
      expect(again.tasks).toMatchObject([{ ...task, attempt: 2, steps: [{ name: "s" }] }]);

      await database.transaction(async (tx) => {
        const within = verbs.within(asQueryable(tx));
        expect(await within.once(`in ${name}`)).toBe(true);
        expect(await within.once(`in ${name}`)).toBe(false);
        const move = { machine: "m", subject: name, move: "go", from: ["new"], to: "on", initial: "new" };
        expect(await within.move(move)).toMatchObject({ outcome: "moved" });
      });
      await dryTransaction(database, async () => {
        expect(await verbs.look(task)).toMatchObject({ state: "running" });
      });
      await pool.end();
    });
  }

  it("gets them so in a transaction of whatever else stands on pg", async () => {
    const client = new pg.Client(fresh().url);
    await client.connect();
    const manager = { query: (text: string, values?: unknown[]) => client.query(text, values) };
    const database = pgDatabase(fresh().url);
    await migrate(database);
    await database.close();
    const verbs = new Verbs(asQueryable(manager), "onceward");
    expect(await verbs.once("with a manager")).toBe(true);
    await client.end();
  });
});
