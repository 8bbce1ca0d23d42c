/** Hosted Postgres is often behind a pooler in transaction mode: each transaction may get another session. */
import postgres from "postgres";
import { beforeEach, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
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

  it("postgres.js works, also without `prepare: false`", async () => {
    const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode: "transaction", poolSize: 2 });
    const sql = postgres(bouncer.url, { max: 5, fetch_types: false });
    try {
      await useBoth(postgresJsDatabase(sql));
    } finally {
      await sql.end({ timeout: 1 });
      await bouncer.stop();
    }
  });
});
