/** Transaction bridges: the ledger inside an ORM's own kind of transaction. */
import { PrismaPg } from "@prisma/adapter-pg";
import { sql } from "drizzle-orm";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import { CamelCasePlugin, Kysely, PostgresDialect, sql as kyselySql } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import { prismaDatabase } from "../../src/database/prisma.ts";
import { createPglite } from "../support/pglite.ts";
import { freshDatabase } from "../support/postgres.ts";
import { generatePrisma } from "../support/prisma.ts";
import { ledgerSuite, type Opened } from "./conformance.ts";

interface DrizzleTx {
  execute(statement: ReturnType<typeof sql.raw>): PromiseLike<unknown>;
}
const runDrizzle = (tx: DrizzleTx, statement: string): PromiseLike<unknown> => tx.execute(sql.raw(statement));

ledgerSuite("Drizzle over pg", async () => {
  const fresh = await freshDatabase("newest");
  const pool = new pg.Pool({ connectionString: fresh.url });
  return {
    database: drizzleDatabase(drizzlePg({ client: pool })),
    run: runDrizzle,
    end: () => pool.end().then(() => fresh.drop()),
  };
});

ledgerSuite("Drizzle over postgres.js", async () => {
  const fresh = await freshDatabase("newest");
  const client = postgres(fresh.url, { onnotice: () => {} });
  return {
    database: drizzleDatabase(drizzlePostgresJs({ client })),
    run: runDrizzle,
    end: () => client.end({ timeout: 1 }).then(() => fresh.drop()),
  };
});

ledgerSuite("Drizzle over PGlite", async () => {
  const client = await createPglite();
  return { database: drizzleDatabase(drizzlePglite({ client })), run: runDrizzle, end: () => client.close() };
});

ledgerSuite("Kysely", async () => {
  const fresh = await freshDatabase("newest");
  const pool = new pg.Pool({ connectionString: fresh.url });
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] });
  return {
    database: kyselyDatabase(db, { client: pool }),
    run: (tx, statement) => kyselySql.raw(statement).execute(tx),
    end: () => db.destroy().then(() => fresh.drop()),
  };
});

ledgerSuite("Prisma", async () => {
  const fresh = await freshDatabase("newest");
  const { PrismaClient, remove } = await generatePrisma();
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: fresh.url }) });
  return {
    database: prismaDatabase(prisma),
    run: (tx, statement) => tx.$executeRawUnsafe(statement),
    end: async () => {
      await prisma.$disconnect();
      remove();
      await fresh.drop();
    },
  } satisfies Opened<Parameters<Parameters<typeof prisma.$transaction>[0]>[0]>;
});
