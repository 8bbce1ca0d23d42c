/** How createOnce is given the database that a project has already. */
import type { Library, Project } from "./project.ts";

export interface DatabaseLines {
  readonly imports: readonly string[];
  /** Before createOnce. */
  readonly before: readonly string[];
  /** The argument of createOnce. */
  readonly argument: string;
  /** How a handler writes a row: what stands in a comment of the first one. */
  readonly write: string;
  /** Packages that must be there. */
  readonly packages: readonly string[];
}

const url = 'process.env["DATABASE_URL"]';
const insert = 'await tx.query("insert into orders (session) values ($1)", [session.id]);';
const pool = `const pool = new pg.Pool({ connectionString: ${url} });`;
const importPg = 'import pg from "pg";';

export function databaseLines(project: Project): DatabaseLines {
  return ways[project.library](project);
}

const ways: Readonly<Record<Library, (project: Project) => DatabaseLines>> = {
  none: () => ({
    imports: [],
    before: ["// Without DATABASE_URL: an embedded Postgres in ./.onceward/db, for development."],
    argument: `{ database: ${url} }`,
    write: insert,
    packages: ["pg", "@electric-sql/pglite"],
  }),
  pg: () => ({
    imports: [],
    before: [],
    argument: `{ database: ${url} }`,
    write: insert,
    packages: ["pg"],
  }),
  supabase: () => ({
    imports: ['import { pgDatabase } from "onceward/pg";'],
    before: [
      "// DATABASE_URL: the pooler (port 6543). DIRECT_URL: the direct connection, for LISTEN; without it workers poll.",
      `const direct = process.env["DIRECT_URL"];`,
      `const database = pgDatabase(${url} ?? "", direct ? { listen: direct } : {});`,
    ],
    argument: "{ database }",
    write: insert,
    packages: ["pg"],
  }),
  postgres: () => ({
    imports: [
      'import { postgresJsDatabase } from "onceward/postgres-js";',
      'import postgres from "postgres";',
    ],
    before: [`const sql = postgres(${url} ?? "");`],
    argument: "{ database: postgresJsDatabase(sql) }",
    write: "await tx`insert into orders (session) values (${session.id})`;",
    packages: ["postgres"],
  }),
  drizzle: ({ dependencies }) => {
    const overPostgresJs = dependencies.has("postgres") && !dependencies.has("pg");
    return {
      imports: [
        `import { drizzle } from "drizzle-orm/${overPostgresJs ? "postgres-js" : "node-postgres"}";`,
        'import { drizzleDatabase } from "onceward/drizzle";',
        overPostgresJs ? 'import postgres from "postgres";' : importPg,
      ],
      before: [
        ...(overPostgresJs ? [`const client = postgres(${url} ?? "");`] : [pool]),
        `const db = drizzle({ client${overPostgresJs ? "" : ": pool"} }); // or your own: import { db } from "…"`,
      ],
      argument: "{ database: drizzleDatabase(db) }",
      write: "await tx.insert(orders).values({ session: session.id });",
      packages: [overPostgresJs ? "postgres" : "pg"],
    };
  },
  kysely: ({ typescript }) => ({
    imports: [
      'import { Kysely, PostgresDialect } from "kysely";',
      'import { kyselyDatabase } from "onceward/kysely";',
      importPg,
    ],
    before: [
      pool,
      `const db = new Kysely${typescript ? "<Record<string, never>>" : ""}({ dialect: new PostgresDialect({ pool }) }); // or your own: import { db } from "…"`,
    ],
    argument: "{ database: kyselyDatabase(db, { client: pool }) }",
    write: 'await tx.insertInto("orders").values({ session: session.id }).execute();',
    packages: ["pg"],
  }),
  prisma: ({ prismaOutput, extension }) => ({
    imports: [
      'import { PrismaPg } from "@prisma/adapter-pg";',
      'import { prismaDatabase } from "onceward/prisma";',
      prismaOutput === undefined
        ? 'import { PrismaClient } from "@prisma/client";'
        : `import { PrismaClient } from "./${prismaOutput.replaceAll("\\", "/")}/client${extension}";`,
    ],
    before: [
      `const adapter = new PrismaPg({ connectionString: ${url}, connectionTimeoutMillis: 5_000 });`,
      'const prisma = new PrismaClient({ adapter }); // or your own: import { prisma } from "…"',
    ],
    argument: "{ database: prismaDatabase(prisma) }",
    write: "await tx.order.create({ data: { session: session.id } });",
    packages: ["@prisma/adapter-pg", "pg"],
  }),
};
