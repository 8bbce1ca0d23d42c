/** Drivers, and a pooler in transaction mode, where each transaction may get another session. */
import pg from "pg";
import postgres from "postgres";
import { pgDatabase } from "../../src/database/pg.ts";
import { postgresJsDatabase } from "../../src/database/postgres-js.ts";
import { startPgBouncer } from "../support/pgbouncer.ts";
import { freshDatabase } from "../support/postgres.ts";
import { ledgerSuite } from "./conformance.ts";

ledgerSuite<postgres.TransactionSql>("postgres.js", async () => {
  const fresh = await freshDatabase("newest");
  const sql = postgres(fresh.url, { onnotice: () => {} });
  return {
    database: postgresJsDatabase(sql),
    run: (tx, statement) => tx.unsafe(statement),
    end: async () => {
      await sql.end({ timeout: 1 });
      await fresh.drop();
    },
  };
});

ledgerSuite<pg.PoolClient>("pg behind PgBouncer in transaction mode", async () => {
  const fresh = await freshDatabase("newest");
  const bouncer = await startPgBouncer({ upstream: fresh.url, poolMode: "transaction", poolSize: 2 });
  const pool = new pg.Pool({ connectionString: bouncer.url });
  return {
    database: pgDatabase(pool),
    run: (tx, statement) => tx.query(statement),
    end: async () => {
      await pool.end();
      await bouncer.stop();
      await fresh.drop();
    },
  };
});
