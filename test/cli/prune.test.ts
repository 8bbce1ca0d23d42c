/** `onceward prune`, with the retention that docs/recovery.md shows. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { urlOf } from "../ledger/support.ts";
import { type Bench, openBench } from "../ledger/support.ts";
import { describeWith } from "../support/postgres.ts";
import { onceward } from "./command.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const day = 86_400_000;

describeWith("newest", "onceward prune", (fresh) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-prune-"));
  let database: Database | undefined;
  let bench: Bench;
  beforeAll(async () => {
    const url = urlOf(fresh);
    if (url === undefined) return;
    database = pgDatabase(url, { max: 2 });
    bench = await openBench(database, url);
    for (const scope of ["stripe", "github"]) {
      await bench.ledger.recordAndClaim({ scope, key: "k", body: "personal" });
      await bench.ledger.complete({ scope, key: "k", attempt: 1 });
    }
    await bench.clock.advance(31 * day);
  });
  afterAll(async () => {
    await database?.close();
    rmSync(folder, { recursive: true });
  });
  /** A file of its own for each command: in one process a module is loaded once, and its database is closed by then. */
  const configuration = (): string => {
    const page = readFileSync(join(root, "docs/recovery.md"), "utf8");
    const block = [...page.matchAll(/```ts\n([^]*?)```/g)]
      .map(([, text]) => text!)
      .find((text) => text.includes("retention"));
    const file = join(folder, `${++files}.ts`);
    writeFileSync(file, block!.replace('"onceward"', JSON.stringify(join(root, "src/index.ts"))));
    return file;
  };
  let files = 0;
  const payload = (scope: string): Promise<unknown> => bench.ledger.verbs.payload({ scope, key: "k" });

  it("counts by the configuration's rules in a dry run, asks, and prunes", async () => {
    const env = { DATABASE_URL: fresh().url };
    const dry = await onceward(["prune", "--config", configuration(), "--dry-run", "--json"], env);
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, payloads: 1, keys: 0 });
    const unasked = await onceward(["prune", "--config", configuration()], env);
    expect(unasked).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("This goes for good: 1 payload."),
    });
    expect(await payload("stripe")).toBe("personal");
    const done = await onceward(
      ["prune", "--config", configuration(), "--yes", "--actor", "ann", "--reason", "full"],
      env,
    );
    expect(done).toMatchObject({ code: 0, stdout: "Gone: 1 payload.\n" });
    expect(await payload("stripe")).toBe(null);
    expect(await payload("github")).toBe("personal");
    const { rows } = await bench.database.query(
      "select distinct actor, reason from onceward.audit where what = 'pruned payloads'",
    );
    expect(rows).toEqual([{ actor: "ann", reason: "full" }]);
  });

  it("takes its rules from the command line, and refuses keys that are still needed", async () => {
    const on = (...args: string[]): string[] => ["prune", "--database", fresh().url, "--yes", ...args];
    expect(await onceward(on("--keys", "1 day"))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("35 days"),
    });
    expect(await onceward(on("--lane", "github", "--log", "1 day"))).toMatchObject({ code: 1 });
    expect(await onceward(on("--lane", "stripe", "--payloads", "1 day"))).toMatchObject({
      code: 0,
      stdout: "Nothing is old enough to go.\n",
    });
    expect((await onceward(on("--keys", "1 day"))).stderr).toContain("(as a command: --override)");
    const done = await onceward(on("--keys", "1 day", "--override", "--json"));
    expect(JSON.parse(done.stdout)).toMatchObject({ dry_run: false, keys: 2 });
    expect(await onceward(on())).toMatchObject({ stdout: "Nothing is old enough to go.\n" });
  });
});
