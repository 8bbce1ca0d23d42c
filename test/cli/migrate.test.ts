/** `onceward migrate`: the ledger that the other commands use, and no other. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../ledger/support.ts";
import { describeWith, freshDatabase, type FreshDatabase } from "../support/postgres.ts";
import { onceward } from "../store/cli.ts";

const library = fileURLToPath(new URL("../../dist/index.js", import.meta.url));

describeWith("newest", "onceward migrate", (database) => {
  const cwd = mkdtempSync(join(tmpdir(), "onceward-migrate-"));
  let another: FreshDatabase;
  beforeAll(async () => {
    writeFileSync(
      join(cwd, "onceward.config.mjs"),
      `import { createOnce, defineConfig } from ${JSON.stringify(library)};
       export default defineConfig({ once: createOnce({ database: process.env.SHOP_URL, schema: "ledger" }) });`,
    );
    if (urlOf(database) !== undefined) another = await freshDatabase();
  });
  afterAll(async () => {
    rmSync(cwd, { recursive: true });
    await another?.drop();
  });

  /** The schemas that hold a ledger. */
  async function ledgers(url: string): Promise<string[]> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      const found = await client.query<{ schema: string }>(
        "select schemaname as schema from pg_tables where tablename = 'task'",
      );
      return found.rows.map(({ schema }) => schema);
    } finally {
      await client.end();
    }
  }

  it("takes the configuration of this folder before DATABASE_URL, and says which database it was", async () => {
    const env = { SHOP_URL: database().url, DATABASE_URL: another.url };
    const { code, stdout, stderr } = await onceward(["migrate"], { cwd, env });
    const { pathname, username, password } = new URL(database().url);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      new RegExp(
        `^Applied migrations 1, .* to the ledger in schema ledger of the database ${pathname.slice(1)} at .*, as ${username}\\.\\n$`,
      ),
    );
    if (password) expect(stdout).not.toContain(password);
    expect(await ledgers(database().url)).toEqual(["ledger"]);
    expect(await ledgers(another.url)).toEqual([]);
    const again = await onceward(["migrate", "--config", "."], { cwd, env });
    expect(again.stdout).toContain("is up to date");
  });

  it("takes the database that was named before the configuration, and never both", async () => {
    const env = { SHOP_URL: database().url };
    const named = ["migrate", "--database", another.url];
    const { stdout } = await onceward([...named, "--json"], { cwd, env });
    expect(JSON.parse(stdout)).toMatchObject({ schema: "onceward", database: { role: expect.any(String) } });
    expect(await ledgers(another.url)).toEqual(["onceward"]);
    const both = await onceward([...named, "--config", "."], { cwd, env });
    expect(both).toMatchObject({ code: 1, stderr: expect.stringContaining("exclude each other") });
  });

  it("makes the embedded database where there is no other", async () => {
    const empty = mkdtempSync(join(tmpdir(), "onceward-migrate-"));
    const { code, stdout } = await onceward(["migrate"], { cwd: empty });
    rmSync(empty, { recursive: true });
    expect(code).toBe(0);
    expect(stdout).toContain("of the embedded database in ./.onceward.");
  });
});
