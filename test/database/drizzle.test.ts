import type { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { createPglite } from "../support/pglite.ts";
import { describeWith } from "../support/postgres.ts";
import { databaseSuite, type Opened } from "./suite.ts";

const thing = pgTable("thing", { id: text().primaryKey() });

type PgTx = Parameters<Parameters<ReturnType<typeof drizzlePg>["transaction"]>[0]>[0];
type PostgresJsTx = Parameters<Parameters<ReturnType<typeof drizzlePostgresJs>["transaction"]>[0]>[0];
type PgliteTx = Parameters<Parameters<ReturnType<typeof drizzlePglite>["transaction"]>[0]>[0];

databaseSuite(
  "Drizzle over pg",
  { listens: false },
  async ({ url, max, ...options }): Promise<Opened<PgTx>> => {
    const pool = new pg.Pool({ connectionString: url, max });
    return {
      database: drizzleDatabase(drizzlePg({ client: pool }), options),
      run: (tx, statement) => tx.execute(sql.raw(statement)),
      end: () => pool.end(),
    };
  },
);

databaseSuite(
  "Drizzle over postgres.js",
  { listens: true },
  async ({ url, max, ...options }): Promise<Opened<PostgresJsTx>> => {
    const client = postgres(url, { max, onnotice: () => {} });
    return {
      database: drizzleDatabase(drizzlePostgresJs({ client }), options),
      run: (tx, statement) => tx.execute(sql.raw(statement)),
      end: () => client.end({ timeout: 1 }),
    };
  },
);

describe("Drizzle over PGlite", () => {
  let client: PGlite;
  beforeAll(async () => {
    client = await createPglite();
  });
  afterAll(() => client.close());

  databaseSuite(
    "Drizzle over PGlite",
    { server: false, listens: true },
    async (): Promise<Opened<PgliteTx>> => ({
      database: drizzleDatabase(drizzlePglite({ client })),
      run: (tx, statement) => tx.execute(sql.raw(statement)),
      end: async () => {},
    }),
  );

  it("says database_nested when a handler uses the database instead of its transaction", async () => {
    const db = drizzlePglite({ client });
    const database = drizzleDatabase(db);
    const nested = { code: "database_nested" };
    await database.transaction(async () => {
      await expect(database.query("select 1")).rejects.toMatchObject(nested);
      await expect(db.execute(sql`select 1`)).rejects.toMatchObject({ cause: nested });
    });
  });
});

describeWith("newest", "Drizzle", (fresh) => {
  it("hands out its own transaction, with its types", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url });
    const database = drizzleDatabase(drizzlePg({ client: pool, schema: { thing } }));
    try {
      await database.query("create table thing (id text primary key)");
      await database.transaction(async (tx) => {
        await tx.insert(thing).values({ id: "typed" });
        expect(await tx.query.thing.findMany()).toEqual([{ id: "typed" }]);
      });
      expect((await database.query("select id from thing")).rows).toEqual([{ id: "typed" }]);
    } finally {
      await pool.end();
    }
  });

  it("refuses a single client, whose transactions would all be one", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url });
    const pooled = await pool.connect();
    try {
      for (const client of [new pg.Client(fresh().url), pooled]) {
        expect(() => drizzleDatabase(drizzlePg({ client }))).toThrow(
          expect.objectContaining({
            code: "config_invalid",
            message: expect.stringContaining("give its pool"),
          }),
        );
      }
    } finally {
      pooled.release();
      await pool.end();
    }
  });

  it("works with a Drizzle that keeps its driver to itself", async () => {
    const client = new pg.Client({ connectionString: fresh().url });
    await client.connect();
    const { transaction, _ } = drizzlePg({ client });
    const database = drizzleDatabase({ transaction: transaction.bind({ session: _.session }), _ } as never);
    const { rows } = await database.query("select $1::text as it", ["through Drizzle"]);
    expect(rows).toEqual([{ it: "through Drizzle" }]);
    await client.end();
  });
});
