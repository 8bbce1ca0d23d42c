import { createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Source } from "../../src/source/source.ts";
import { codeOf, NOW, NOW_S, receive, requestOf } from "./support.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/sources.md"), "utf8");
const SECRET = "the-secret-of-acme";

/** The first block of code under a heading, as a program: only the name of the package is replaced. */
function programUnder(heading: string): string {
  const section = page.split(`## ${heading}\n`)[1]!;
  const code = /```ts\n([^]*?)```/.exec(section)![1]!;
  return code
    .replace(/"onceward\/stripe"/, JSON.stringify(join(root, "src/source/stripe.ts")))
    .replace(/"onceward\/source"/, JSON.stringify(join(root, "src/source/index.ts")))
    .replace(/"onceward"/, JSON.stringify(join(root, "src/errors.ts")));
}

describe("docs/sources.md", () => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
  const run = async (heading: string) => {
    const file = join(folder, `${heading.replaceAll(/\W/g, "-")}.ts`);
    writeFileSync(file, programUnder(heading));
    return (await import(file)) as Record<string, unknown>;
  };

  beforeAll(() => {
    vi.stubEnv("ACME_SECRET", SECRET);
    vi.stubEnv("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef");
    vi.stubEnv("CLERK_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    vi.stubEnv("SEND_EMAIL_HOOK_SECRET", "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  it("shows a source of one's own in ten lines, and it works", async () => {
    const lines = programUnder("Write your own in ten lines").trim().split("\n");
    expect(lines.length).toBeLessThanOrEqual(10);
    const { acme } = (await run("Write your own in ten lines")) as { acme: Source };
    const body = '{"id":"e_1"}';
    const headers = {
      "x-acme-signature": `sha256=${createHmac("sha256", SECRET).update(`${NOW_S}.${body}`).digest("hex")}`,
      "x-acme-timestamp": String(NOW_S),
      "x-acme-event": "order.paid",
    };
    expect(receive(acme, requestOf(body, headers))).toMatchObject({ id: "e_1", type: "order.paid" });
    expect(codeOf(() => receive(acme, requestOf(`${body} `, headers)))).toBe("signature_mismatch");
    expect(codeOf(() => receive(acme, requestOf(body, headers), NOW + 301_000))).toBe("timestamp_too_old");
  });

  it("shows one by hand, and it works", async () => {
    const { token } = (await run("Write your own by hand")) as { token: (expected: string) => Source };
    const source = token(SECRET);
    const result = (body: string, headers: Record<string, string>) =>
      codeOf(() => receive(source, requestOf(body, headers)));
    expect(receive(source, requestOf('{"id":"1","type":"a"}', { "x-token": SECRET }))).toEqual({
      id: "1",
      type: "a",
    });
    expect(result("{}", { "x-token": SECRET })).toBe("body_unreadable");
    expect(result("{", { "x-token": SECRET })).toBe("body_unreadable");
    expect(result("{}", { "x-token": "wrong" })).toBe("signature_mismatch");
    expect(result("{}", {})).toBe("signature_missing");
  });

  it("shows how Stripe and Standard Webhooks are set up, and that works", async () => {
    expect(await run("Stripe")).toMatchObject({ billing: { name: "stripe" } });
    expect(await run("Standard Webhooks")).toMatchObject({
      clerk: { name: "clerk" },
      supabase: { name: "supabase" },
    });
  });

  it("names every code that a source refuses with", () => {
    for (const code of [
      "signature_missing",
      "signature_malformed",
      "signature_mismatch",
      "timestamp_too_old",
      "timestamp_in_future",
      "body_unreadable",
      "livemode_mismatch",
    ]) {
      expect(page).toContain(`\`${code}\``);
    }
  });
});
