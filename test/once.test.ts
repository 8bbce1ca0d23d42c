import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import pg from "pg";
import Stripe from "stripe";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { createOnce, type Once } from "../src/once.ts";
import type { JobTools } from "../src/job/job.ts";
import { nodeHandler } from "../src/receive/node.ts";
import { stripe } from "../src/source/stripe.ts";
import { describeWith } from "./support/postgres.ts";

const secret = "whsec_test_secret";
const event = readFileSync(new URL("fixtures/stripe-events.ndjson", import.meta.url), "utf8").split(
  "\n",
)[0] as string;

describeWith("newest", "the whole of it", (database) => {
  let once: Once;
  let pool: pg.Pool;
  let server: Server;
  let url: string;
  const mails: string[] = [];

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database().url });
    await pool.query("create table orders (session text primary key, times integer not null default 1)");
    once = createOnce({ database: database().url });
    const mail = once.job("mail", async ({ input, step }: JobTools<{ session: string }>) => {
      await step("send", () => void mails.push(input.session));
    });
    const billing = once.source(stripe({ secrets: secret }));
    billing.on("checkout.session.completed", async ({ event, tx, enqueue, once }) => {
      const session = event.data.object;
      if (!(await once(`order:${session.id}`))) return;
      await tx.query("insert into orders (session) values ($1)", [session.id]);
      await enqueue(mail, { session: session.id });
    });
    await once.start();
    server = createServer(nodeHandler(billing)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });

  afterAll(async () => {
    server?.close();
    await once?.stop();
    await pool?.end();
  });

  it("may be told twice to stop", async () => {
    const once = createOnce({ database: database().url });
    once.job("stopped", () => undefined);
    await once.start();
    await Promise.all([once.stop(), once.stop()]);
    await once.stop();
  });

  it("makes one order and one mail of 25 deliveries", async () => {
    const stripeClient = new Stripe("sk_test_unused");
    const header = stripeClient.webhooks.generateTestHeaderString({ payload: event, secret });
    const answers = await Promise.all(
      Array.from({ length: 25 }, async () => {
        const response = await fetch(url, {
          method: "POST",
          body: event,
          headers: { "stripe-signature": header },
        });
        return response.status;
      }),
    );
    expect(new Set(answers)).toEqual(new Set([200]));
    await vi.waitFor(() => expect(mails).toHaveLength(1), { timeout: 60_000 });
    expect((await pool.query("select count(*)::int as n from orders")).rows).toEqual([{ n: 1 }]);
  });
});

describeWith("newest", "who is told what happens", (database) => {
  it("is told although others who are told fail, at once or later, and so does not end the process", async () => {
    const rejected: unknown[] = [];
    const notice = (error: unknown): void => void rejected.push(error);
    process.on("unhandledRejection", notice);
    const told: string[] = [];
    const away = (): Promise<never> => Promise.reject(new Error("away"));
    const full = (): never => {
      throw new Error("full");
    };
    const once = createOnce({ database: database().url, onRan: away, onError: away });
    once.observe({ received: away, attempted: away, troubled: away });
    once.observe({ received: full, attempted: full, troubled: full });
    once.observe({
      received: ({ outcome }) => void told.push(outcome),
      attempted: ({ outcome }) => void told.push(`attempt ${outcome}`),
      troubled: (error) => void told.push(`trouble: ${(error as Error).message}`),
    });
    const billing = once.source(stripe({ secrets: secret }), { log: away });
    billing.on("*", () => undefined);
    await once.start();
    const signature = new Stripe("sk_test_unused").webhooks.generateTestHeaderString({
      payload: event,
      secret,
    });
    const header = (name: string) => (name === "stripe-signature" ? signature : undefined);
    await billing.receive({ method: "POST", body: Buffer.from(event), header });
    await vi.waitFor(() => expect(told).toHaveLength(5), { timeout: 60_000 });
    // What fails at an attempt is trouble that others hear of: once for each of the three that failed there.
    expect(told.toSorted()).toEqual([
      "accepted",
      "attempt done",
      "trouble: away",
      "trouble: away",
      "trouble: full",
    ]);
    await once.stop();
    process.off("unhandledRejection", notice);
    expect(rejected).toEqual([]);
  });
});
