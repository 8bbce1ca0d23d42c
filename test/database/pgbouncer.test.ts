/** Hosted Postgres is often behind a pooler in transaction mode: each transaction may get another session. */
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle } from "drizzle-orm/postgres-js";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { beforeEach, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { postgresJsDatabase } from "../../src/database/postgres-js.ts";
import { needsPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("newest", "behind PgBouncer in transaction mode", (fresh) => {
  beforeEach(needsPgBouncer);

  async function useBoth(database: Database): Promise<void> {
    await database.query("create table if not exists used (id text)");
    await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        i % 2 === 0
          ? database.query("insert into used values ($1::text)", [`query ${i}`])
          : database.transaction(async (_tx, ledger) => {
              await ledger.query("insert into used values ($1::text)", [`first ${i}`]);
              await ledger.query("insert into used values ($1::text)", [`second ${i}`]);
            }),
      ),
    );
    const { rows } = await database.query("select count(*)::int as used from used");
    expect(rows).toEqual([{ used: 45 }]);
    await database.query("drop table used");
  }

  it("pg works, and listens over a direct connection", async () => {
    const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode: "transaction", poolSize: 2 });
    const database = pgDatabase(bouncer.url, { listen: fresh().url });
    try {
      await useBoth(database);
      const heard = new Promise<string>(
        (resolve) =>
          void database.listen!("channel", resolve).then(() =>
            database.query("select pg_notify('channel', 'direct')"),
          ),
      );
      expect(await heard).toBe("direct");
    } finally {
      await database.close();
      await bouncer.stop();
    }
  });

  it.each([
    ["Drizzle over pg", (pool: pg.Pool): Database => drizzleDatabase(drizzlePg({ client: pool }))],
    [
      "Kysely",
      (pool: pg.Pool): Database => kyselyDatabase(new Kysely({ dialect: new PostgresDialect({ pool }) })),
    ],
  ])("%s works", async (_name, open) => {
    const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode: "transaction", poolSize: 2 });
    const pool = new pg.Pool({ connectionString: bouncer.url, max: 5 });
    try {
      for (let round = 0; round < 5; round++) await useBoth(open(pool));
    } finally {
      await pool.end();
      await bouncer.stop();
    }
  });

  it("postgres.js works with `prepare: false`", async () => {
    const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode: "transaction", poolSize: 2 });
    const sql = postgres(bouncer.url, { max: 5, fetch_types: false, prepare: false });
    try {
      for (let round = 0; round < 5; round++) await useBoth(postgresJsDatabase(sql));
    } finally {
      await sql.end({ timeout: 1 });
      await bouncer.stop();
    }
  });

  // Without it postgres.js tells of commits that were rollbacks: about half of them in this test.
  it.each([
    ["postgres.js", (sql: postgres.Sql): Database => postgresJsDatabase(sql)],
    ["Drizzle over it", (sql: postgres.Sql): Database => drizzleDatabase(drizzle({ client: sql }))],
  ])("%s without `prepare: false` never tells of a commit that was none", async (_name, open) => {
    const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode: "transaction", poolSize: 2 });
    const sql = postgres(bouncer.url, { max: 5, fetch_types: false });
    const direct = pgDatabase(fresh().url);
    try {
      await direct.query("create table told (id text)");
      const database = open(sql);
      const ids = Array.from({ length: 100 }, (_, i) => String(i));
      const ends = await Promise.allSettled(
        ids.map((id) =>
          database.transaction((_tx, ledger) => ledger.query("insert into told values ($1::text)", [id])),
        ),
      );
      const { rows } = await direct.query("select coalesce(jsonb_agg(id), '[]'::jsonb) as ids from told");
      const kept = new Set(rows[0]?.["ids"] as string[]);
      expect(ids.filter((_, i) => ends[i]?.status === "fulfilled")).toEqual(ids.filter((id) => kept.has(id)));
      const codes = ends.flatMap((end) =>
        end.status === "rejected" ? [(end.reason as { code: string }).code] : [],
      );
      expect(codes.filter((code) => code !== "transaction_aborted")).toEqual([]);
    } finally {
      await direct.query("drop table if exists told");
      await direct.close();
      await sql.end({ timeout: 1 });
      await bouncer.stop();
    }
  });
});
