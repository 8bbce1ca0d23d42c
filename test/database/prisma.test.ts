import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { prismaDatabase } from "../../src/database/prisma.ts";
import { describeWith } from "../support/postgres.ts";
import { type GeneratedPrisma, generatePrisma, type PrismaTx } from "../support/prisma.ts";
import { databaseSuite, type Opened } from "./suite.ts";

describe("Prisma", () => {
  let PrismaClient: GeneratedPrisma["PrismaClient"];
  let remove: () => void;
  beforeAll(async () => ({ PrismaClient, remove } = await generatePrisma()));
  afterAll(() => remove?.());

  databaseSuite("Prisma", { listens: false }, async ({ url, max, ...options }): Promise<Opened<PrismaTx>> => {
    const connectionTimeoutMillis = options.connectionTimeoutMs ?? 5_000;
    const adapter = new PrismaPg({ connectionString: url, max, connectionTimeoutMillis });
    const prisma = new PrismaClient({ adapter });
    return {
      database: prismaDatabase(prisma, options),
      run: (tx, statement) => tx.$executeRawUnsafe(statement),
      end: () => prisma.$disconnect(),
    };
  });

  databaseSuite(
    "Prisma with its pool",
    { listens: false },
    async ({ url, max, ...options }): Promise<Opened<PrismaTx>> => {
      const pool = new pg.Pool({ connectionString: url, max });
      const prisma = new PrismaClient({ adapter: new PrismaPg(pool) });
      return {
        database: prismaDatabase(prisma, { ...options, client: pool }),
        run: (tx, statement) => tx.$executeRawUnsafe(statement),
        async end() {
          await prisma.$disconnect();
          await pool.end();
        },
      };
    },
  );

  describeWith("newest", "its transactions", (fresh) => {
    it("are its own, with its models", async () => {
      const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: fresh().url }) });
      const database = prismaDatabase(prisma);
      await database.query("create table thing (id text primary key)");
      await database.transaction((tx) => tx.thing.create({ data: { id: "typed" } }));
      expect((await database.query("select id from thing")).rows).toEqual([{ id: "typed" }]);
      await prisma.$disconnect();
    });

    it("end after the time that was set, and say so", async () => {
      const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: fresh().url }) });
      const database = prismaDatabase(prisma, { timeoutMs: 200 });
      const running = database.transaction((_, ledger) =>
        ledger.query("select 'late' as it from pg_sleep(1)"),
      );
      await expect(running).rejects.toThrow(/200 ms/);
      await prisma.$disconnect();
    });
  });
});
