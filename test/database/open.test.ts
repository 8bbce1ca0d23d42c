import type { Transaction } from "@electric-sql/pglite";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle } from "drizzle-orm/pglite";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import type { PgClient } from "../../src/database/pg.ts";
import { openDatabase } from "../../src/database/open.ts";
import { prismaDatabase } from "../../src/database/prisma.ts";
import { createPglite } from "../support/pglite.ts";

// Nothing here connects: adapters do so on first use.
const pool = new pg.Pool({ connectionString: "postgres://127.0.0.1:1/none", max: 3 });
const sql = postgres("postgres://127.0.0.1:1/none", { max: 4 });
const pglite = await createPglite();

describe("openDatabase", () => {
  it.each([
    ["nothing", undefined, "embedded"],
    ["the word", "embedded", "embedded"],
    ["a URL", "postgres://user:password@localhost:5432/name", "pg"],
    ["a URL with the longer scheme", "postgresql://localhost/name?sslmode=require", "pg"],
    ["a URL of a unix socket", "postgres:///name?host=/var/run/postgresql", "pg"],
    ["a pg.Pool", pool, "pg"],
    ["a sql of postgres.js", sql, "postgres.js"],
    ["a PGlite instance", pglite, "pglite"],
  ])("takes %s", (_, input, name) => {
    expect(openDatabase(input).name).toBe(name);
  });

  it("knows the type of each one's transactions", () => {
    // The compiler checks these.
    const opened: [
      Database<PgClient>,
      Database<pg.PoolClient>,
      Database<postgres.TransactionSql>,
      Database<Transaction>,
    ] = [openDatabase(process.env["NOT_SET"]), openDatabase(pool), openDatabase(sql), openDatabase(pglite)];
    expectTypeOf(openDatabase(pool)).toEqualTypeOf<Database<pg.PoolClient>>();
    expectTypeOf(openDatabase(sql)).toEqualTypeOf<Database<postgres.TransactionSql>>();
    expectTypeOf(openDatabase(pglite)).toEqualTypeOf<Database<Transaction>>();
    expect(opened.map((database) => database.name)).toEqual(["embedded", "pg", "postgres.js", "pglite"]);
  });

  it.each([
    ["a pg.Pool", openDatabase(pool), 3],
    ["a sql of postgres.js", openDatabase(sql), 4],
    ["Drizzle over pg", drizzleDatabase(drizzlePg({ client: pool })), 3],
    ["Drizzle over postgres.js", drizzleDatabase(drizzlePostgresJs({ client: sql })), 4],
    [
      "Kysely with its pool",
      kyselyDatabase(new Kysely({ dialect: new PostgresDialect({ pool }) }), { client: pool }),
      3,
    ],
    ["Prisma with its pool", prismaDatabase({ $transaction: never }, { client: pool }), 3],
  ])(
    "knows how many connections %s has, so that no more handlers start than that",
    (_, database, connections) => {
      expect(database.connections).toBe(connections);
    },
  );

  it.each([
    ["NODE_ENV", "production"],
    ["AWS_LAMBDA_FUNCTION_NAME", "webhooks"],
    ["VERCEL", "1"],
  ])("opens no embedded database by default where %s=%s, only by its name", (name, value) => {
    vi.stubEnv(name, value);
    try {
      expect(messageOf(() => openDatabase())).toMatch(/is DATABASE_URL set\?.*"embedded"/);
      expect(openDatabase("embedded").name).toBe("embedded");
      expect(openDatabase("postgres://localhost/name").name).toBe("pg");
      vi.stubEnv("NEXT_PHASE", "phase-production-build");
      expect(openDatabase().name).toBe("embedded");
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("returns a Database as it is", () => {
    const database = openDatabase("postgres://localhost/name");
    expect(openDatabase(database)).toBe(database);
  });

  it.each([
    ["a PrismaClient", { $queryRawUnsafe: () => {} }, "prismaDatabase(prisma)"],
    ["a Kysely", new Kysely({ dialect: new PostgresDialect({ pool }) }), "kyselyDatabase(db)"],
    ["a Drizzle", drizzle({ client: pglite }), "drizzleDatabase(db)"],
    ["a single client", new pg.Client(), "give its pool"],
    ["null", null, "postgres://"],
    ["a number", 5432, "postgres://"],
    ["a config", { host: "localhost", password: "hunter2" }, "postgres://"],
  ])("refuses %s and says what to give instead", (_, input, instead) => {
    expect(() => openDatabase(input)).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(instead) }),
    );
  });

  it.each([
    "",
    "  ",
    "localhost",
    "mysql://root:hunter2@localhost/db",
    "postgres//x:hunter2@host",
    "http://hunter2@host",
  ])("refuses the URL %j without showing it", (url) => {
    const message = messageOf(() => openDatabase(url));
    expect(message).toContain("postgres://user:password@host:5432/name");
    expect(message).not.toContain("hunter2");
  });

  it("says that the variable may not be set where the URL is empty", () => {
    expect(messageOf(() => openDatabase(""))).toContain("environment variable");
  });
});

function never(): Promise<never> {
  return Promise.reject(new Error("nobody calls this"));
}

function messageOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    expect(error).toMatchObject({ code: "config_invalid" });
    return (error as Error).message;
  }
  return "nothing was thrown";
}
