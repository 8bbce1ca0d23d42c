/** What becomes visible where nobody has set up a log: trouble and failures, and nothing of what they were about. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Database } from "../src/database/database.ts";
import { Fatal, OncewardError } from "../src/errors.ts";
import type { Attempted, Observer } from "../src/observe.ts";
import { createOnce, type Once, type OnceOptions } from "../src/once.ts";
import type { Receipt } from "../src/receive/receiver.ts";
import { stripe } from "../src/source/stripe.ts";
import { event, SECRET, signature } from "./handler/support.ts";
import { describeWith } from "./support/postgres.ts";

describeWith("newest", "where nobody observes", (database) => {
  const made: Once<unknown>[] = [];
  let said: string[];
  beforeEach(() => {
    said = [];
    vi.spyOn(console, "error").mockImplementation((line) => void said.push(String(line)));
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await Promise.all(made.splice(0).map((once) => once.stop()));
  });

  function create<Tx>(options: OnceOptions<Tx>): Once<Tx> {
    const once = createOnce({ leaseMs: 15_000, ...options });
    made.push(once as Once<unknown>);
    return once;
  }

  /** The status and the body that Stripe gets for an event of a payment. */
  async function delivered(
    once: Once<unknown>,
    log?: (receipt: Receipt) => void,
    sent = event("invoice.paid", { id: "evt_1" }),
  ) {
    const billing = once.sources.get("stripe") ?? once.source(stripe({ secrets: SECRET }), { log });
    const body = Buffer.from(JSON.stringify(sent));
    const header = (name: string) => (name === "stripe-signature" ? signature(body.toString()) : undefined);
    return billing.receive({ method: "POST", body, header });
  }

  function elsewhere(name: string): string {
    const url = new URL(database().url);
    url.pathname = `/${name}`;
    return url.href;
  }

  it("a database that is not there is told on standard error, once, and to the sender never", async () => {
    const once = create({ database: elsewhere("nowhere") });
    for (const _ of [1, 2]) {
      expect(await delivered(once)).toMatchObject({ status: 500, body: '{"error":{"code":"internal"}}' });
    }
    expect(said).toEqual([
      "onceward: The database refuses (3D000, DatabaseError): there is no such database.",
    ]);
  });

  it("a package that is not installed is told in our own words", async () => {
    const refuse = async (): Promise<never> => {
      throw new OncewardError("driver_missing", "Run `npm install pg`.");
    };
    const none: Database = {
      name: "none",
      single: false,
      query: refuse,
      transaction: refuse,
      close: async () => undefined,
    };
    expect(await delivered(create({ database: none }))).toMatchObject({ status: 500 });
    expect(said).toEqual(["onceward: Run `npm install pg`."]);
  });

  it("whoever observes, or has a log, is told instead", async () => {
    const observed = create({ database: elsewhere("nowhere") });
    const troubled = vi.fn<NonNullable<Observer["troubled"]>>();
    observed.observe({ troubled });
    await delivered(observed);
    expect(troubled.mock.calls).toMatchObject([[{ code: "3D000" }]]);
    const receipts: Receipt[] = [];
    await delivered(create({ database: elsewhere("nowhere") }), (receipt) => receipts.push(receipt));
    expect(receipts).toMatchObject([{ outcome: "error", code: "internal", error: "3D000" }]);
    expect(said).toEqual([]);
  });

  it("a failed attempt is told on standard error, without the words of its error", async () => {
    const once = create({ database: database().url });
    const fail = (): never => {
      throw new TypeError("no account of ada@example.com");
    };
    const mail = once.job("mail", { maxAttempts: 1 }, fail);
    const slow = once.job("slow", fail);
    await once.start();
    await once.enqueue(mail, 1, { key: "ada's" });
    await once.enqueue(slow, 1, { key: "in_1" });
    await expect
      .poll(() => said.toSorted())
      .toEqual([
        "onceward: job/mail ada's: attempt 1 failed (TypeError), and the task is dead; see: onceward show 'ada'\\''s'",
        "onceward: job/slow in_1: attempt 1 failed (TypeError); see: onceward show in_1",
      ]);
  });

  it("so is a handler that failed while its sender waited", async () => {
    const once = create({ database: database().url });
    once.source(stripe({ secrets: SECRET })).on("invoice.paid", () => {
      throw new Error("no account of ada@example.com");
    });
    expect(await delivered(once)).toMatchObject({ status: 500 });
    expect(said).toEqual(["onceward: stripe evt_1: attempt 1 failed (Error); see: onceward show evt_1"]);
  });

  it("an observer is told the same of an attempt whose sender waits as of one of a worker", async () => {
    const told = async (answer: "inline" | "queued", id: string): Promise<Attempted[]> => {
      const once = create({ database: database().url });
      const attempts: Attempted[] = [];
      once.observe({ attempted: (attempted) => void attempts.push(attempted) });
      once
        .source(stripe({ secrets: SECRET }), { answer, maxAttempts: 2, backoff: { baseMs: 1 } })
        .on("invoice.paid", ({ attempt }) => {
          throw new (attempt === 1 ? RangeError : Fatal)("no account of ada@example.com");
        });
      if (answer === "queued") await once.start();
      const sent = event("invoice.paid", { id });
      await expect
        .poll(async () => {
          const { status } = await delivered(once, undefined, sent);
          return `${status} ${attempts.length}`;
        })
        .toBe(answer === "inline" ? "500 2" : "200 2");
      await once.stop();
      return attempts;
    };
    const of = (key: string) => ({ scope: "stripe", lane: "stripe", key, type: "invoice.paid" });
    const ms = expect.any(Number) as number;
    for (const [answer, id] of [
      ["inline", "evt_waits"],
      ["queued", "evt_worker"],
    ] as const) {
      expect(await told(answer, id)).toEqual([
        { ...of(id), attempt: 1, outcome: "failed", state: "waiting", error: "RangeError", ms },
        { ...of(id), attempt: 2, outcome: "failed", state: "dead", error: "fatal", ms },
      ]);
    }
    expect(said).toEqual([]);
  });

  it("the caller of an action gets its error, and nobody else is told", async () => {
    const once = create({ database: database().url });
    const charge = () =>
      once.run("charge:1", () => {
        throw new TypeError("no");
      });
    await expect(charge()).rejects.toThrow("no");
    const attempted = vi.fn<NonNullable<Observer["attempted"]>>();
    once.observe({ attempted });
    await expect(charge()).rejects.toThrow("no");
    expect(attempted).not.toHaveBeenCalled();
    expect(said).toEqual([]);
  });

  it("and nothing where somebody is told", async () => {
    const ran: string[] = [];
    const once = create({ database: database().url, onRan: (_, { outcome }) => ran.push(outcome) });
    const job = once.job("told", { maxAttempts: 1 }, () => {
      throw new Error("no");
    });
    await once.start();
    await once.enqueue(job, 1);
    await expect.poll(() => ran).toEqual(["failed"]);
    expect(said).toEqual([]);
  });

  it("what is the sender's fault is no trouble of ours", async () => {
    const once = create({ database: database().url });
    const receipts: Receipt[] = [];
    const billing = once.source(stripe({ secrets: SECRET }), { log: (receipt) => receipts.push(receipt) });
    const troubled = vi.fn<NonNullable<Observer["troubled"]>>();
    once.observe({ troubled });
    await billing.receive({ method: "POST", body: Buffer.from("{}"), header: () => undefined });
    expect(receipts).toMatchObject([{ status: 400, code: "signature_missing" }]);
    expect(receipts[0]).not.toHaveProperty("error");
    expect(troubled).not.toHaveBeenCalled();
  });
});
