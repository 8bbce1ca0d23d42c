/** The programs of docs/webhooks.md, run as they stand there: only the name of the package is replaced. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { errorTable } from "../../src/errors.ts";
import type { ConnectedSource } from "../../src/handler/source.ts";
import { createOnce, type Once } from "../../src/once.ts";
import type { PgClient } from "../../src/database/pg.ts";
import { stripe, type StripeEvents } from "../../src/source/stripe.ts";
import { describeWith } from "../support/postgres.ts";
import { event, SECRET, signature } from "./support.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/webhooks.md"), "utf8");
const programs = [...page.matchAll(/```ts\n([^]*?)```/g)].map((match) => match[1]!);

const files: Record<string, string> = {
  onceward: "src/index.ts",
  "onceward/node": "src/receive/node.ts",
  "onceward/stripe": "src/source/stripe.ts",
};

function runnable(program: string): string {
  return program.replaceAll(
    /from "(onceward[^"]*)"/g,
    (_, name: string) => `from ${JSON.stringify(join(root, files[name]!))}`,
  );
}

describe("docs/webhooks.md", () => {
  it("says what the codes of the errors are that it names", () => {
    for (const [, code] of page.matchAll(/`([a-z]+_[a-z_]+)`/g)) {
      if (!["async_payment_succeeded", "payment_status"].includes(code!))
        expect(Object.keys(errorTable)).toContain(code);
    }
  });
});

describeWith("newest", "the programs of docs/webhooks.md", (database) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
  let app: { once: Once; billing: ConnectedSource<StripeEvents, PgClient>; server: Server };
  let client: pg.Client;
  let log: { mock: { calls: unknown[][] }; mockRestore(): void };

  beforeAll(async () => {
    vi.stubEnv("DATABASE_URL", database().url);
    vi.stubEnv("STRIPE_WEBHOOK_SECRET", SECRET);
    vi.stubEnv("PORT", "0");
    log = vi.spyOn(console, "log").mockImplementation(() => undefined);
    client = new pg.Client({ connectionString: database().url });
    await client.connect();
    await client.query("create table orders (session text)");
    const file = join(folder, "app.ts");
    writeFileSync(file, runnable(programs[0]!));
    app = (await import(file)) as typeof app;
  });
  afterAll(async () => {
    app?.server.close();
    await app?.once.stop();
    await client?.end();
    log?.mockRestore();
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  it("fulfil an order once, and mail a receipt for it", async () => {
    const { port } = app.server.address() as AddressInfo;
    const sent = event("checkout.session.completed", {
      data: { object: { id: "cs_1", payment_status: "paid" } },
    });
    const body = JSON.stringify(sent);
    const send = () =>
      new Promise<string>((resolve, reject) => {
        const headers = { "stripe-signature": signature(body) };
        request({ host: "127.0.0.1", port, method: "POST", headers, agent: false }, (response) => {
          let text = "";
          response.on("data", (chunk: Buffer) => (text += chunk.toString())).on("end", () => resolve(text));
        })
          .on("error", reject)
          .end(body);
      });
    expect(await send()).toBe('{"outcome":"accepted"}');
    await expect.poll(() => log.mock.calls).toEqual([["a receipt for cs_1"]]);
    expect(await send()).toBe('{"outcome":"duplicate"}');
    expect((await client.query("select session from orders")).rows).toEqual([{ session: "cs_1" }]);
  });

  it("show parts that work", async () => {
    expect(programs).toHaveLength(6);
    const file = join(folder, "parts.ts");
    const parts = programs
      .slice(1)
      .map(
        (part, i) =>
          `export function part${i}({ once, billing, stripe, secrets, handler, client }) {\n${part}}\n`,
      );
    writeFileSync(file, parts.join("\n"));
    const { part0, part1, part2, part3, part4 } = (await import(file)) as Record<
      string,
      (tools: object) => void
    >;
    await client.query("create table subscription (id text primary key, status text)");
    await client.query("create table paid (invoice text primary key)");
    const open = () => {
      const once = createOnce({ database: database().url });
      return { once, stripe, secrets: [SECRET], handler: () => undefined };
    };

    const receiving = open();
    part1!(receiving);
    expect([...receiving.once.sources.keys()]).toEqual(["stripe"]);

    const working = open();
    const billing = working.once.source(stripe({ secrets: SECRET }));
    part0!({ ...working, billing });
    part2!({ ...working, billing });
    const retrieve = async (id: string) => ({ id, status: "past_due" });
    part3!({ ...working, billing, client: { subscriptions: { retrieve } } });
    for (const [type, status] of [
      ["created", "trialing"],
      ["updated", "active"],
    ] as const) {
      const sent = event(`customer.subscription.${type}`, { data: { object: { id: "sub_1", status } } });
      expect(await billing.take(Buffer.from(JSON.stringify(sent)))).toMatchObject({ outcome: "done" });
    }
    const invoice = event("invoice.paid", { data: { object: { id: "in_1" } } });
    expect(await billing.take(Buffer.from(JSON.stringify(invoice)))).toMatchObject({ outcome: "done" });
    expect((await client.query("select * from paid")).rows).toEqual([{ invoice: "in_1" }]);
    // Both are of one second, so that the sender was asked.
    expect((await client.query("select * from subscription")).rows).toEqual([
      { id: "sub_1", status: "past_due" },
    ]);
    part4!(working);
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const refused = await billing.receive({
      method: "POST",
      body: Buffer.from("{}"),
      header: () => undefined,
    });
    expect([refused.status, warn.mock.calls]).toEqual([400, []]);
    warn.mockRestore();
    await Promise.all([receiving, working].map(({ once }) => once.stop()));
  });
});
