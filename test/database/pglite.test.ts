import { PGlite, type Transaction } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { createPglite } from "../support/pglite.ts";
import { databaseSuite, type Opened } from "./suite.ts";

describe("PGlite", () => {
  let db: PGlite;
  let database: Database<Transaction>;
  beforeAll(async () => {
    db = await createPglite();
    database = pgliteDatabase(db);
  });
  afterAll(() => db.close());

  databaseSuite("PGlite", { server: false, listens: true }, async (): Promise<Opened<Transaction>> => ({
    database,
    run: (tx, statement) => tx.query(statement),
    end: async () => {},
  }));

  const nested = { code: "database_nested" };

  it("says database_nested for a query beside the open transaction, and the transaction can go on", async () => {
    const result = await database.transaction(async (_, ledger) => {
      await expect(database.query("select 1")).rejects.toMatchObject(nested);
      await expect(database.transaction(async () => "inner")).rejects.toMatchObject(nested);
      return (await ledger.query("select 'still here' as it")).rows;
    });
    expect(result).toEqual([{ it: "still here" }]);
  });

  it("says so too when the application uses its own instance there", async () => {
    await database.transaction(async () => {
      await expect(db.query("select 1")).rejects.toMatchObject(nested);
      await expect(db.exec("select 1")).rejects.toMatchObject(nested);
      await expect(db.sql`select 1`).rejects.toMatchObject(nested);
      await expect(db.transaction(async () => {})).rejects.toMatchObject(nested);
    });
  });

  it("lets queries from elsewhere wait for the transaction", async () => {
    let started = (): void => {};
    let finish = (): void => {};
    const running = new Promise<void>((resolve) => (started = resolve));
    const mayEnd = new Promise<void>((resolve) => (finish = resolve));
    const order: string[] = [];
    const transaction = database.transaction(async () => {
      started();
      await mayEnd;
      order.push("transaction");
    });
    await running;
    const beside = database.query("select 1").then(() => order.push("query"));
    finish();
    await Promise.all([transaction, beside]);
    expect(order).toEqual(["transaction", "query"]);
  });

  it("does not mind what a handler started and that runs on when its transaction is over", async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const { later } = await database.transaction(async () => ({
      later: gate.then(() => database.query("select 'later' as it")),
    }));
    release();
    expect((await later).rows).toEqual([{ it: "later" }]);
  });

  it("leaves the application's instance open", async () => {
    await database.close();
    await expect(db.query("select 1 as one")).resolves.toMatchObject({ rows: [{ one: 1 }] });
  });
});
