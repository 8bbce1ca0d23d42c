import type { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { asQueryable } from "../../src/database/queryable.ts";
import { createPglite } from "../support/pglite.ts";

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
