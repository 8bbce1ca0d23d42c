import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { scheduleUpkeep } from "../../src/cli/upkeep.ts";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import type { Outcome } from "../../src/handler/outcome.ts";
import { createOnce, type Once } from "../../src/once.ts";
import {
  backfill,
  backfillThrough,
  type BackfillOptions,
  type BackfillReport,
} from "../../src/recover/backfill/backfill.ts";
import { itemTexts } from "../../src/recover/backfill/items.ts";
import { StripeApi } from "../../src/recover/backfill/stripe-api.ts";
import { takeUntilSettled } from "../../src/recover/backfill/take.ts";
import type { RecoveryContext } from "../../src/recover/context.ts";
import { stripe } from "../../src/source/stripe.ts";
import { deliveryOf, effect, read, SECRET, type StripeEvent } from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";
import { API_KEY, FakeStripe, textOf } from "./fake-stripe.ts";

const hour = 3600;

describeWith("newest", "a backfill", (server) => {
  let fake: FakeStripe;
  let database: Database<PgClient>;
  beforeAll(async () => {
    fake = await FakeStripe.start();
    database = pgDatabase(server().url);
    await database.query(
      "create table effect (n bigint generated always as identity, event text, what text)",
    );
  });
  const open: Once[] = [];
  afterEach(async () => {
    for (const once of open.splice(0)) await once.engine.stop();
    fake.events = [];
    fake.endpoints = [];
    fake.asked.length = 0;
    fake.faults.length = 0;
    fake.hangs = false;
    fake.onPage = () => {};
  });
  afterAll(async () => {
    await database?.close();
    await fake?.stop();
  });

  /** An application with a source of its own, so that tests share a database. */
  const app = (
    name = `stripe-${randomBytes(4).toString("hex")}`,
    over: Partial<Database<PgClient>> = {},
    options: { waitMs?: number } = {},
  ) => {
    const once = createOnce({ database: { ...database, ...over } });
    open.push(once);
    const billing = once.source(stripe({ secrets: SECRET, name }), options);
    const run = async ({ event, tx }: { event: unknown; tx: PgClient }) =>
      effect(tx, (event as StripeEvent).id);
    billing.on("invoice.paid", run).on("charge.refunded", run).on("customer.created", run);
    const context = { engine: once.engine, sources: once.sources } as unknown as RecoveryContext;
    const fetchMissing = async (options: Partial<BackfillOptions> = {}): Promise<BackfillReport> => {
      const pausesMs = [1, 1, 1];
      // Only as long as that where a test has the fake not answer.
      const timeoutMs = fake.hangs ? 2_000 : 60_000;
      const api = await StripeApi.open({ apiKey: API_KEY, base: fake.base, timeoutMs, pausesMs });
      return backfillThrough(context, api, { source: name, apiKey: API_KEY, ...options });
    };
    return {
      once,
      billing,
      name,
      context,
      fetchMissing,
      look: (key: string) => once.engine.ledger.verbs.look({ scope: name, key }),
    };
  };
  const monthAgo = new Date(Date.now() - 29 * 24 * hour * 1000);
  const effectsOf = async (ids: readonly string[]): Promise<number[]> => {
    const { rows } = await database.query("select event, count(*)::int as n from effect group by event");
    const counts = new Map(rows.map((row) => [row["event"], row["n"] as number]));
    return ids.map((id) => counts.get(id) ?? 0);
  };
  const idsOf = (events: readonly StripeEvent[]) => events.map(({ id }) => id);

  it("records and runs what never arrived, as the text in which the API gave it, and says that it was fetched", async () => {
    const { fetchMissing, name, once, look } = app();
    const missing = fake.add("invoice.paid", 2 * hour);
    const unhandled = fake.add("product.updated", 3 * hour);
    const report = await fetchMissing({ since: monthAgo });
    expect(report).toMatchObject({ listed: 1, missing: 1, known: 0, takenOver: false });
    expect(report.sentence).toMatch(
      /^1 event was missing, and recorded now, up to \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$/,
    );
    expect(await look(missing.id)).toMatchObject({ state: "done", origin: "backfill", type: "invoice.paid" });
    expect(await once.engine.ledger.verbs.payload({ scope: name, key: missing.id })).toBe(textOf(missing));
    expect(await once.recovery.list({ lane: name })).toMatchObject([{ key: missing.id, origin: "backfill" }]);
    expect(await look(unhandled.id)).toBeNull();
    expect(await effectsOf([missing.id])).toEqual([1]);

    const again = await fetchMissing({ since: monthAgo });
    expect(again).toMatchObject({ missing: 0, known: 1 });
    expect(again.sentence).toMatch(/^nothing missing up to \d{4}-/);
    expect(await effectsOf([missing.id])).toEqual([1]);
  });

  it("is one with a later delivery of the same event in other bytes; other content under its id is set apart", async () => {
    const { fetchMissing, billing, name, once, look } = app();
    const missing = fake.add("invoice.paid", 2 * hour, { pending_webhooks: 1 });
    const twin = fake.add("customer.created", 2 * hour);
    expect(await fetchMissing({ since: monthAgo })).toMatchObject({ missing: 2, pending: 1 });
    const deliver = async (sent: object) => read(await billing.receive(deliveryOf(JSON.stringify(sent))));
    // In the API version of the endpoint, and one delivery later.
    expect(await deliver({ ...missing, api_version: "2020-01-01", pending_webhooks: 3 })).toMatchObject({
      outcome: "duplicate",
    });
    expect(await deliver({ ...twin, id: "evt_twin", created: twin.created + 1 })).toMatchObject({
      outcome: "duplicate",
    });
    expect(await look(missing.id)).toMatchObject({ log: [] });
    const other = { ...missing, data: { object: { id: "in_other" } } };
    expect(await deliver(other)).toMatchObject({ outcome: "conflict" });
    expect(
      await once.engine.ledger.verbs.look({ scope: name, key: `customer.created:${twin.data.object.id}` }),
    ).toMatchObject({ origin: "backfill", state: "done" });
    expect(await effectsOf([missing.id, twin.id, "evt_twin"])).toEqual([1, 1, 0]);
  });

  it("keeps accounts apart as their deliveries do, although the list does not name them", async () => {
    const { fetchMissing, billing, once, name } = app();
    const missing = fake.add("invoice.paid", hour);
    expect(await fetchMissing({ since: monthAgo, account: "acct_1" })).toMatchObject({ missing: 1 });
    expect(await once.engine.ledger.verbs.look({ scope: `${name}/acct_1`, key: missing.id })).toMatchObject({
      state: "done",
    });
    const delivered = deliveryOf(JSON.stringify({ ...missing, account: "acct_1" }));
    expect(read(await billing.receive(delivered))).toMatchObject({ outcome: "duplicate" });
  });

  it("walks through all pages, whatever fails on the way for a while", async () => {
    const { fetchMissing } = app();
    const all = Array.from({ length: 230 }, (_, i) => fake.add("invoice.paid", hour + i));
    fake.hangs = true;
    fake.faults.push(429, 500, "cut");
    fake.onPage = () => void fake.faults.push(...(fake.asked.length === 2 ? (["hang", 503] as const) : []));
    expect(await fetchMissing({ since: monthAgo })).toMatchObject({ listed: 230, missing: 230 });
    expect(fake.asked.map((query) => query.get("starting_after"))).toEqual([null, all[99]!.id, all[199]!.id]);
    expect(new Set(await effectsOf(idsOf(all)))).toEqual(new Set([1]));
  });

  it("goes on where it stood when it died, and has moved no further than what is recorded", async () => {
    const { fetchMissing, name } = app();
    const all = Array.from({ length: 250 }, (_, i) => fake.add("invoice.paid", hour + i));
    fake.onPage = () => {
      if (fake.asked.length === 2) fake.faults.push(500, 500, 500, 500);
    };
    await expect(fetchMissing({ since: monthAgo })).rejects.toMatchObject({ code: "sender_unavailable" });
    expect((await effectsOf(idsOf(all))).filter((n) => n === 1)).toHaveLength(200);
    fake.onPage = () => {};
    // Events that happen after the walk began are not in its way.
    const young = fake.add("invoice.paid", 90);
    fake.asked.length = 0;
    // Another process, that dies after a page is recorded and before the position has moved.
    let dead = false;
    const mortal = app(name, {
      query: (text, params) => {
        if (!dead && text.includes("cursor_move") && fake.asked.length > 0) {
          dead = true;
          return Promise.reject(new Error("killed"));
        }
        return database.query(text, params);
      },
    });
    await expect(mortal.fetchMissing()).rejects.toThrow("killed");
    expect(fake.asked.map((query) => query.get("starting_after"))).toEqual([all[199]!.id]);
    const report = await app(name).fetchMissing();
    expect(report).toMatchObject({ missing: 1, known: expect.any(Number) });
    expect(report.upTo).toBeDefined();
    expect(new Set(await effectsOf(idsOf([...all, young])))).toEqual(new Set([1]));
  });

  it("begins its walk again where Stripe has forgotten the event it stood at", async () => {
    const { fetchMissing } = app();
    const all = Array.from({ length: 150 }, (_, i) => fake.add("invoice.paid", hour + i));
    fake.onPage = () => {
      if (fake.asked.length === 1) fake.faults.push(500, 500, 500, 500);
    };
    await expect(fetchMissing({ since: monthAgo })).rejects.toMatchObject({ code: "sender_unavailable" });
    fake.onPage = () => {};
    fake.events = fake.events.filter(({ id }) => id !== all[99]!.id);
    expect(await fetchMissing()).toMatchObject({ missing: 50 });
    expect(new Set(await effectsOf(idsOf(all)))).toEqual(new Set([1]));
  });

  it("overlaps: finds what appears in the list behind the place it had come to", async () => {
    const { fetchMissing } = app();
    fake.add("invoice.paid", hour);
    await fetchMissing({ since: monthAgo });
    const late = fake.add("invoice.paid", 5 * 60);
    const old = fake.add("invoice.paid", 2 * hour);
    expect(await fetchMissing()).toMatchObject({ missing: 1 });
    expect(await effectsOf([late.id, old.id])).toEqual([1, 0]);
    expect(await fetchMissing({ overlap: "3 hours" })).toMatchObject({ missing: 1 });
  });

  it("begins where the ledger began: what happened before was somebody else's to handle", async () => {
    const { fetchMissing, billing } = app();
    const before = fake.add("invoice.paid", 20 * 24 * hour);
    expect(await fetchMissing()).toMatchObject({ listed: 0, missing: 0 });
    const { fetchMissing: later, billing: used } = app();
    await used.take(Buffer.from(JSON.stringify(fake.add("charge.refunded", 0))));
    expect(await later({ settle: 0 })).toMatchObject({ missing: 0 });
    expect(await later({ since: monthAgo })).toMatchObject({ missing: 1 });
    expect(await effectsOf([before.id])).toEqual([1]);
    expect(billing.name).not.toBe(used.name);
  });

  it("says what is out of reach where it slept for longer than Stripe remembers", async () => {
    const { fetchMissing, name } = app();
    const forgotten = fake.add("invoice.paid", 35 * 24 * hour);
    await fetchMissing();
    const value = JSON.stringify({ upTo: forgotten.created - hour });
    await database.query("update onceward.cursor set value = $1 where name = $2", [
      value,
      `backfill ${name}`,
    ]);
    const report = await fetchMissing();
    expect(report).toMatchObject({ listed: 0, outOfReach: expect.any(String) });
    expect(report.sentence).toContain("out of Stripe's reach");
  });

  for (const [how, position] of [
    ["it stood at the beginning of a walk", { upTo: 45, walk: { from: 45, to: 20 } }],
    [
      "it stood at an event that Stripe has forgotten",
      { upTo: 45, walk: { from: 45, to: 20, after: "evt_gone" } },
    ],
    ["it stood in its first walk", { walk: { from: 45, to: 20, after: "evt_gone" } }],
  ] as const) {
    it(`says so too where ${how} for longer`, async () => {
      const { fetchMissing, name, once } = app();
      const young = fake.add("invoice.paid", 5 * 24 * hour);
      await once.engine.ready();
      const daysAgo = (days: number) => Math.floor(Date.now() / 1000) - days * 24 * hour;
      const value = JSON.stringify(position, (_, days: unknown) =>
        typeof days === "number" ? daysAgo(days) : days,
      );
      await database.query("insert into onceward.cursor values ($1, $2, now())", [`backfill ${name}`, value]);
      const report = await fetchMissing();
      expect(report).toMatchObject({ missing: 1, outOfReach: expect.any(String) });
      expect(report.sentence).toContain("out of Stripe's reach");
      expect(await effectsOf([young.id])).toEqual([1]);
      expect((await fetchMissing()).outOfReach).toBeUndefined();
    });
  }

  it("does not call out of reach what only its caller wanted to see", async () => {
    const { fetchMissing } = app();
    await fetchMissing();
    const since = new Date(Date.now() - 60 * 24 * hour * 1000);
    expect((await fetchMissing({ since })).outOfReach).toBeUndefined();
  });

  it("races with late deliveries and with itself: one effect each", async () => {
    const { fetchMissing, billing, name, once } = app();
    const other = app(name);
    await once.start();
    const all = Array.from({ length: 220 }, (_, i) => fake.add("invoice.paid", hour + i));
    const deliveries = all.map((sent) =>
      billing.receive(deliveryOf(JSON.stringify({ ...sent, pending_webhooks: 2 }))),
    );
    const [one, two] = await Promise.all([
      fetchMissing({ since: monthAgo }),
      other.fetchMissing({ since: monthAgo }),
      ...deliveries,
    ]);
    expect([one, two].some(({ takenOver }) => !takenOver)).toBe(true);
    expect(await fetchMissing()).toMatchObject({ missing: 0 });
    await expect
      .poll(async () => new Set(await effectsOf(idsOf(all))), { timeout: 60_000 })
      .toEqual(new Set([1]));
  });

  it("stops where another one has moved on with its walk", async () => {
    const { fetchMissing, name } = app();
    for (let i = 0; i < 150; i++) fake.add("invoice.paid", hour + i);
    const cursor = `backfill ${name}`;
    const { events } = StripeApi.prototype;
    const elsewhere = vi.spyOn(StripeApi.prototype, "events").mockImplementationOnce(async function (
      this: StripeApi,
      query,
    ) {
      const page = await events.call(this, query);
      await database.query("update onceward.cursor set value = '{\"upTo\": 1}' where name = $1", [cursor]);
      return page;
    });
    const report = await fetchMissing({ since: monthAgo });
    elsewhere.mockRestore();
    expect(report).toMatchObject({ takenOver: true, missing: 100, upTo: undefined });
    expect(report.sentence).toContain("another backfill goes on with it");
    const { rows } = await database.query("select value from onceward.cursor where name = $1", [cursor]);
    expect(rows).toEqual([{ value: '{"upTo": 1}' }]);
  });

  it("leaves running to workers where some are there", async () => {
    const { fetchMissing, name, look } = app();
    const missing = fake.add("invoice.paid", hour);
    await database.query("select onceward.hello('a worker elsewhere', array[$1::text])", [name]);
    expect(await fetchMissing({ since: monthAgo })).toMatchObject({ missing: 1 });
    expect(await look(missing.id)).toMatchObject({ state: "waiting" });
  });

  it("runs by itself no more at once than there are places for handlers, so that none is left waiting", async () => {
    const { fetchMissing, billing, name, once } = app(undefined, { connections: 3 }, { waitMs: 50 });
    billing.on("invoice.voided", () => new Promise((resolve) => setTimeout(resolve, 150)));
    for (let i = 0; i < 5; i++) fake.add("invoice.voided", hour + i);
    expect(await fetchMissing({ since: monthAgo })).toMatchObject({ missing: 5, failed: 0, busy: 0 });
    const states = (await once.recovery.list({ lane: name })).map(({ state }) => state);
    expect(states).toEqual(Array.from({ length: 5 }, () => "done"));
  });

  it("says what failed, where there is no worker to try again", async () => {
    const { fetchMissing, billing } = app();
    billing.on("invoice.voided", () => Promise.reject(new Error("not today")));
    fake.add("invoice.voided", hour);
    const report = await fetchMissing({ since: monthAgo });
    expect(report).toMatchObject({ missing: 1, failed: 1, busy: 0 });
    expect(report.sentence).toContain("1 of them failed, and wait for a worker or a replay");
  });

  it("asks for what was not delivered alone, and keeps a place of its own", async () => {
    const { fetchMissing } = app();
    const failed = fake.add("invoice.paid", hour, { undelivered: true });
    const lost = fake.add("invoice.paid", 2 * hour);
    expect(await fetchMissing({ since: monthAgo, failedOnly: true })).toMatchObject({
      listed: 1,
      missing: 1,
    });
    expect(fake.asked[0]?.get("delivery_success")).toBe("false");
    expect(await effectsOf([failed.id, lost.id])).toEqual([1, 0]);
    expect(await fetchMissing({ since: monthAgo })).toMatchObject({ listed: 2, missing: 1 });
  });

  it("sees that an endpoint is disabled, and what no endpoint asks for", async () => {
    const { fetchMissing } = app();
    const endpoint = { object: "webhook_endpoint", url: "https://shop.example/hooks/secret-path" };
    fake.endpoints = [
      { ...endpoint, id: "we_1", status: "disabled", enabled_events: ["*"] },
      { ...endpoint, id: "we_2", status: "enabled", enabled_events: ["invoice.paid", "charge.refunded"] },
    ];
    const report = await fetchMissing();
    expect(report).toMatchObject({
      disabled: [{ id: "we_1", host: "shop.example" }],
      unsubscribed: ["customer.created"],
    });
    expect(report.sentence).toContain("the endpoint we_1 at shop.example is disabled");
    fake.onPage = () => void fake.faults.push(403);
    expect((await fetchMissing()).disabled).toBeUndefined();
  });

  it("says what is wrong with a key, without repeating any of it", async () => {
    const { context, name, fetchMissing } = app();
    fake.faults.push(401);
    const refused = await fetchMissing().catch((error: unknown) => error as Error);
    expect(refused).toMatchObject({ code: "sender_refused" });
    expect((refused as Error).message).not.toContain("sk_");
    await expect(backfill(context, { source: name, apiKey: "pk_live_1" })).rejects.toMatchObject({
      code: "config_invalid",
    });
    await expect(backfill(context, { source: "none", apiKey: API_KEY })).rejects.toMatchObject({
      code: "config_invalid",
    });
  });

  it("runs by itself in serve where there is a key, each tick once across processes", async () => {
    const name = `stripe-${randomBytes(4).toString("hex")}`;
    const missing = fake.add("invoice.paid", 0);
    vi.stubEnv("STRIPE_API_BASE", fake.base);
    const said: string[] = [];
    const processes = [app(name), app(name)];
    for (const { once } of processes) {
      const config = {
        once: once as never,
        backfill: { source: name, apiKey: API_KEY, cron: "* * * * * *" },
      };
      scheduleUpkeep(config, { say: (message) => void said.push(message) });
    }
    // From an hour ago on, so that there is something to find.
    const position = JSON.stringify({ upTo: missing.created - 3600 });
    const cursor = [`backfill ${name}`, position];
    await processes[0]!.once.engine.ready();
    await database.query("insert into onceward.cursor values ($1, $2, now())", cursor);
    fake.events[0]!.created -= 90;
    try {
      for (const { once } of processes) await once.start();
      await expect.poll(() => effectsOf([missing.id]), { timeout: 60_000 }).toEqual([1]);
      await expect.poll(() => said.join(), { timeout: 60_000 }).toContain("1 event was missing");
    } finally {
      vi.unstubAllEnvs();
      for (const { once } of processes) await once.engine.stop();
    }
    const ticks = await processes[0]!.once.recovery.list({ lane: `job/onceward-backfill-${name}` });
    expect(new Set(ticks.map(({ attempt }) => attempt <= 1))).toEqual(new Set([true]));
  });
});

describe("what is taken without a worker", () => {
  const taken = (...outcomes: Outcome[]) => {
    const take = vi.fn(async () => ({ scope: "s", key: "k", outcome: outcomes.shift()! }));
    return { take, settled: takeUntilSettled({ take }, Buffer.from("{}"), { patienceMs: 1_000 }) };
  };

  it("is taken again while somebody else is busy with it", async () => {
    const { take, settled } = taken("busy", "busy", "duplicate");
    expect(await settled).toEqual({ first: "busy", last: "duplicate" });
    expect(take).toHaveBeenCalledTimes(3);
  });

  it("is left as busy after a while", async () => {
    const { settled } = taken(...Array.from({ length: 100 }, () => "busy" as const));
    expect(await settled).toEqual({ first: "busy", last: "busy" });
  });
});

describe("the elements of a list in JSON", () => {
  it.each([
    ["{}", []],
    ['{"data": []}', []],
    [
      '{"other": [1, {"data": [2]}], "data": [{"a": "]"}, "x,\\"y", [1, [2]], 3.50, null , true]}',
      ['{"a": "]"}', '"x,\\"y"', "[1, [2]]", "3.50", "null", "true"],
    ],
    ['{"object": "data", "d\\u0061ta": [ {"data": [1]} ], "has_more": false}', ['{"data": [1]}']],
  ])("are found in %s", (text, items) => {
    expect(itemTexts(text, "data")).toEqual(items);
  });
});
