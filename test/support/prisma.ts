/** A generated Prisma client for a test, in a folder of its own: it depends on the schema, so no package holds it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { PrismaPg } from "@prisma/adapter-pg";
import type { PrismaLike } from "../../src/database/prisma.ts";

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

/** The part of the generated types that tests use. */
export interface PrismaTx {
  readonly thing: { create(options: { data: { id: string } }): Promise<unknown> };
  $executeRawUnsafe(statement: string): Promise<number>;
}

export interface PrismaClient extends PrismaLike<PrismaTx> {
  $disconnect(): Promise<void>;
}

export interface GeneratedPrisma {
  readonly PrismaClient: new (options: { adapter: PrismaPg }) => PrismaClient;
  /** Removes what was generated. */
  remove(): void;
}

export async function generatePrisma(): Promise<GeneratedPrisma> {
  const folder = mkdtempSync(join(tmpdir(), "onceward-prisma-"));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "schema.prisma"), schema);
  generateClient(folder);
  const { PrismaClient } = (await import(join(folder, "generated", "client.ts"))) as Pick<
    GeneratedPrisma,
    "PrismaClient"
  >;
  return { PrismaClient, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** `prisma generate` for the schema.prisma of a folder. */
export function generateClient(folder: string): void {
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
}
