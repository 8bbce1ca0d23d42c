import pg from "pg";
import { pgDatabase } from "../../src/database/pg.ts";
import { freshDatabase, type Which } from "../support/postgres.ts";
import { type Opened, ledgerSuite } from "./conformance.ts";

async function openPg(which: Which): Promise<Opened<pg.PoolClient>> {
  const fresh = await freshDatabase(which);
  const pool = new pg.Pool({ connectionString: fresh.url });
  return {
    database: pgDatabase(pool),
    run: (tx, statement) => tx.query(statement),
    end: async () => {
      await pool.end();
      await fresh.drop();
    },
  };
}

ledgerSuite("pg on the newest Postgres", () => openPg("newest"));
ledgerSuite("pg on the oldest Postgres", () => openPg("oldest"));
