import { CamelCasePlugin, Kysely, PostgresDialect, sql, type Transaction } from "kysely";
import pg from "pg";
import { expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import { describeWith } from "../support/postgres.ts";
import { databaseSuite, type Opened } from "./suite.ts";

interface Tables {
  thing: { id: string };
}

databaseSuite(
  "Kysely",
  { listens: false },
  async ({ url, max, ...options }): Promise<Opened<Transaction<Tables>>> => {
    const pool = new pg.Pool({ connectionString: url, max });
    const db = new Kysely<Tables>({
      dialect: new PostgresDialect({ pool }),
      plugins: [new CamelCasePlugin()],
    });
    const database: Database<Transaction<Tables>> = kyselyDatabase(db, { client: pool, ...options });
    return {
      database,
      run: (tx, statement) => sql.raw(statement).execute(tx),
      end: () => db.destroy(),
    };
  },
);

describeWith("newest", "Kysely", (fresh) => {
  it("hands out its own transaction, with its types, and runs the ledger without its plugins", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url });
    const db = new Kysely<Tables>({
      dialect: new PostgresDialect({ pool }),
      plugins: [new CamelCasePlugin()],
    });
    const database = kyselyDatabase(db); // without the pool: Kysely runs everything
    try {
      await database.query("create table thing (id text primary key)");
      const seen = await database.transaction(async (tx, ledger) => {
        await tx.insertInto("thing").values({ id: "typed" }).execute();
        return ledger.query(`select '{"snake_case": 1}'::jsonb as snake_case, $1::text as param`, ["p"]);
      });
      expect(seen.rows).toEqual([{ snake_case: { snake_case: 1 }, param: "p" }]);
      expect((await database.query("select id from thing")).rows).toEqual([{ id: "typed" }]);
    } finally {
      await db.destroy();
    }
  });

  it("refuses a single client in the place of its pool", () => {
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: new pg.Pool() }) });
    expect(() => kyselyDatabase(db, { client: new pg.Client() })).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.stringContaining("give its pool") }),
    );
  });
});
