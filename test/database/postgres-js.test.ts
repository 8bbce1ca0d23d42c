import postgres from "postgres";
import { expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { postgresJsDatabase } from "../../src/database/postgres-js.ts";
import { describeWith } from "../support/postgres.ts";
import { databaseSuite, type Opened } from "./suite.ts";

databaseSuite(
  "postgres.js",
  { listens: true },
  async ({ url, max, ...options }): Promise<Opened<postgres.TransactionSql>> => {
    const sql = postgres(url, { max, onnotice: () => {} });
    const database: Database<postgres.TransactionSql> = postgresJsDatabase(sql, options);
    return { database, run: (tx, statement) => tx.unsafe(statement), end: () => sql.end({ timeout: 1 }) };
  },
);

databaseSuite(
  "postgres.js with camel case",
  { listens: true },
  async ({ url, max, ...options }): Promise<Opened<postgres.TransactionSql>> => {
    const sql = postgres(url, { max, transform: postgres.camel, onnotice: () => {} });
    return {
      database: postgresJsDatabase(sql, options),
      run: (tx, statement) => tx.unsafe(statement),
      end: () => sql.end({ timeout: 1 }),
    };
  },
);

describeWith("newest", "postgres.js", (fresh) => {
  it("hands out its own transaction, with savepoints for what may fail", async () => {
    const sql = postgres(fresh().url, { max: 2 });
    try {
      await sql`create table saved (id text primary key)`;
      await postgresJsDatabase(sql).transaction(async (tx) => {
        await tx`insert into saved values (${"kept"})`;
        await tx.savepoint((inner) => inner`insert into saved values (${"kept"})`).catch(() => {});
      });
      expect([...(await sql`select id from saved`)]).toEqual([{ id: "kept" }]);
    } finally {
      await sql.end();
    }
  });

  it("asks its listeners to look once after its listening connection was cut", async () => {
    const sql = postgres(fresh().url, { max: 2, connection: { application_name: "listens" } });
    const database = postgresJsDatabase(sql);
    let look = (): void => {};
    const arrived = new Promise<void>((resolve) => (look = resolve));
    const heard: string[] = [];
    await database.listen!("channel", (payload) => {
      heard.push(payload);
      look();
    });
    await sql`select pg_terminate_backend(pid, 10000) from pg_stat_activity
              where application_name = 'listens' and pid <> pg_backend_pid() and query like 'listen%'`;
    await arrived;
    expect(heard).toEqual([""]);
    await sql.end({ timeout: 1 });
  });
});
