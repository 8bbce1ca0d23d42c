import pg from "pg";
import { beforeEach, expect, it } from "vitest";
import { needsPgBouncer, startPgBouncer } from "./pgbouncer.ts";
import { describeWith } from "./postgres.ts";

describeWith("newest", "a PgBouncer in transaction mode", (database) => {
  beforeEach(needsPgBouncer);

  it("runs statements of many clients over few connections", async () => {
    const bouncer = await startPgBouncer({ upstream: database().url, poolMode: "transaction", poolSize: 2 });
    const pool = new pg.Pool({ connectionString: bouncer.url, max: 10 });
    try {
      const clients = await Promise.all(Array.from({ length: 10 }, () => pool.connect()));
      const answers = await Promise.all(
        clients.map((client) => client.query("select pg_backend_pid() as pid")),
      );
      for (const client of clients) client.release();
      expect(new Set(answers.map(({ rows }) => rows[0].pid)).size).toBeLessThanOrEqual(2);
    } finally {
      await pool.end();
      await bouncer.stop();
    }
  });
});
