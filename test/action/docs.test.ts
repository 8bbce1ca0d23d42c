import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Once } from "../../src/once.ts";
import { describeWith } from "../support/postgres.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/agents.md"), "utf8");

describeWith("newest", "docs/agents.md", (fresh) => {
  // Inside the project, so that the programs find their packages.
  mkdirSync(join(root, ".onceward"), { recursive: true });
  const folder = mkdtempSync(join(root, ".onceward/docs-"));
  const calls: string[] = [];
  const provider = createServer((request, response) => {
    calls.push(String(request.url));
    response.end(`{"invoice":"in_${calls.length}"}`);
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
    vi.stubEnv("DATABASE_URL", fresh().url);
    vi.stubEnv("BANK_URL", url);
    vi.stubEnv("BILLING_URL", url);
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
    provider.closeAllConnections();
    await new Promise((resolve) => provider.close(resolve));
  });

  async function program<Exports>(heading: string): Promise<Exports & { once: Once }> {
    const code = /```ts\n([^]*?)```/.exec(page.split(`## ${heading}\n`)[1]!)![1]!;
    const file = join(folder, `${heading.replaceAll(/\W/g, "-")}.ts`);
    writeFileSync(
      file,
      code.replace(/from "onceward"/, `from ${JSON.stringify(join(root, "src/index.ts"))}`),
    );
    return (await import(file)) as Exports & { once: Once };
  }

  it("shows an action, and it happens once", async () => {
    const { once, refund } = await program<{
      refund(order: { id: string; amount: number }): Promise<string>;
    }>("An action");
    const order = { id: "order_7", amount: 50 };
    const first = await refund(order);
    expect(await refund(order)).toBe(first);
    await expect(refund({ ...order, amount: 51 })).rejects.toMatchObject({ code: "input_conflict" });
    expect(await refund({ id: "order_8", amount: 500 })).toBe("needs a person");
    expect(calls.splice(0)).toEqual(["/refunds"]);
    await once.stop();
  });

  it("shows a tool, and it is called once in a run", async () => {
    type Call = (
      conversation: string,
      args: { customer: string; amount: number },
    ) => Promise<{ invoice: string }>;
    const { once, onToolCall } = await program<{ onToolCall: Call }>("A tool");
    const first = await onToolCall("chat 1", { customer: "ann", amount: 5 });
    expect(await onToolCall("chat 1", { amount: 5, customer: "ann" })).toEqual(first);
    expect(await onToolCall("chat 2", { customer: "ann", amount: 5 })).not.toEqual(first);
    expect(calls.splice(0)).toHaveLength(2);
    await once.stop();
  });

  it("names codes and files that exist", async () => {
    const { errorTable } = await import("../../src/errors.ts");
    for (const code of ["already_running", "still_waiting", "outcome_unknown", "input_conflict", "fatal"]) {
      expect(page).toContain(`\`${code}\``);
      expect(errorTable).toHaveProperty(code);
    }
    for (const [, path] of page.matchAll(/`(test\/[\w/.-]+)`/g))
      expect(() => readFileSync(join(root, path!))).not.toThrow();
  });
});
