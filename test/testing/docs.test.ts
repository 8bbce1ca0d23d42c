import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Once } from "../../src/once.ts";
import { describeWith } from "../support/postgres.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/testing.md"), "utf8");
const files = {
  onceward: "index.ts",
  "onceward/stripe": "source/stripe.ts",
  "onceward/testing": "testing/index.ts",
};

/** The program of the page: only the names of packages are replaced, and what is asked for. */
function program(replace: (code: string) => string): string {
  let code = /```ts\n([^]*?)```/.exec(page)?.[1] ?? "";
  for (const [name, file] of Object.entries(files)) {
    code = code.replace(`"${name}"`, JSON.stringify(join(root, "src", file)));
  }
  return replace(code);
}

describeWith("newest", "docs/testing.md", (database) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
  beforeAll(() => {
    vi.stubEnv("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef");
    vi.stubEnv("TEST_DATABASE_URL", database().url);
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  async function run(name: string, replace: (code: string) => string): Promise<void> {
    writeFileSync(join(folder, name), program(replace));
    const { once, test } = (await import(join(folder, name))) as { once: Once; test(): Promise<void> };
    await once.database.query("create table if not exists credits (invoice text, amount integer)");
    await test().finally(() => once.stop());
  }

  it("shows a proof that is given", async () => {
    await run("right.ts", (code) => code);
  });

  it("shows the report of a handler that writes elsewhere", async () => {
    const shown = /```text\n([^]*?) {2}…/.exec(page)?.[1] ?? "the page has no report";
    const elsewhere = (code: string): string =>
      code
        .replace("await tx.query(", "await once.database.query(")
        .replace("[invoice.id, invoice.amount_paid]", "[invoice.id, String(invoice.amount_paid)]");
    await expect(run("wrong.ts", elsewhere)).rejects.toThrow(shown);
  });
});
