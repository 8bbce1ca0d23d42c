/** The client is generated here, into a folder of its own: it depends on the schema, so no package holds it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PrismaLike, prismaDatabase } from "../../src/database/prisma.ts";
import { describeWith } from "../support/postgres.ts";
import { databaseSuite, type Opened } from "./suite.ts";

const schema = `
generator client {
  provider = "prisma-client"
  output   = "./generated"
}
datasource db {
  provider = "postgresql"
}
model Thing {
  id String @id
  @@map("thing")
}
`;

/** The part of the generated types that is used here. */
interface Tx {
  readonly thing: { create(options: { data: { id: string } }): Promise<unknown> };
  $executeRawUnsafe(statement: string): Promise<number>;
}
interface Client extends PrismaLike<Tx> {
  $disconnect(): Promise<void>;
}

describe("Prisma", () => {
  let folder: string;
  let PrismaClient: new (options: { adapter: PrismaPg }) => Client;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "onceward-prisma-"));
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    writeFileSync(join(folder, "schema.prisma"), schema);
    execFileSync(
      process.execPath,
      [resolve("node_modules/prisma/build/index.js"), "generate", "--schema", join(folder, "schema.prisma")],
      {
        cwd: folder,
        // It would download an engine that generating does not need.
        env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true", CHECKPOINT_DISABLE: "1" },
        stdio: "pipe",
      },
    );
    ({ PrismaClient } = await import(join(folder, "generated", "client.ts")));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  databaseSuite("Prisma", { listens: false }, async ({ url, max, ...options }): Promise<Opened<Tx>> => {
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
    async ({ url, max, ...options }): Promise<Opened<Tx>> => {
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
