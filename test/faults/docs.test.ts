/** docs/faults.md: its program as it stands there (only the names of the package are replaced), and its table. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it, vi } from "vitest";
import type { Once } from "../../src/once.ts";
import { describeWith } from "../support/postgres.ts";
import { faults } from "./faults/index.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/faults.md"), "utf8");

it("docs/faults.md tells of every fault", () => {
  const [, table = ""] = page.split("## What is broken");
  const told = [...table.split("\n## ", 1)[0]!.matchAll(/^\| `([\w-]+)`/gm)].map(([, name]) => name);
  expect(told).toEqual(faults.map(({ name }) => name));
});

describeWith("newest", "the program of docs/faults.md", (fresh) => {
  // Inside the project, so that it finds its packages.
  mkdirSync(join(root, ".onceward"), { recursive: true });
  const folder = mkdtempSync(join(root, ".onceward/docs-"));
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  it("runs", async () => {
    vi.stubEnv("DATABASE_URL", fresh().url);
    const file = join(folder, "hang.ts");
    const program = /```ts\n([^]*?)```/.exec(page)![1]!;
    writeFileSync(
      file,
      program
        .replaceAll('"onceward"', JSON.stringify(join(root, "src/index.ts")))
        .replaceAll('"onceward/pg"', JSON.stringify(join(root, "src/database/pg.ts"))),
    );
    const { once } = (await import(file)) as { once: Once };
    await once.start();
    const { rows } = await once.database.transaction((_, ledger) =>
      ledger.query("select current_setting('idle_in_transaction_session_timeout') as limit"),
    );
    await once.stop();
    expect(rows).toEqual([{ limit: "1min" }]);
  });
});
