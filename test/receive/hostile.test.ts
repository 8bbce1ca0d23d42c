/** Thousands of requests that nobody should send: each is refused with a code, or is genuine and taken as it is. */
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Answer, Delivery } from "../../src/receive/delivery.ts";
import type { Receipt } from "../../src/receive/receiver.ts";
import { type App, deliveryOf, effect, event, openApp, SECRET, signature } from "../handler/support.ts";
import { hostileBodies, hostileHeaders } from "../source/hostile.ts";
import { leaks } from "../source/support.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("newest", "malformed requests", (database) => {
  let app: App;
  let sent = 0;
  const receipts: Receipt[] = [];
  const personal = "jane.doe@example.com lives in Springfield";
  const genuine = JSON.stringify(event("customer.updated", { data: { object: { id: "cus_1", personal } } }));

  beforeAll(async () => {
    app = await openApp(database().url, {
      source: { answer: "inline", log: (receipt) => void receipts.push(receipt) },
    });
    app.billing.fallback(({ event: { id }, tx }) => effect(tx, id));
    await app.engine.ready();
  });
  afterAll(() => app?.close());

  const tasks = async (): Promise<unknown> =>
    (await app.engine.database.query("select to_jsonb(count(*)) as n from onceward.task")).rows[0]?.["n"];

  /** Sends it, and checks what holds for every request there is. */
  async function send(delivery: Delivery): Promise<Answer> {
    sent++;
    const answer = await app.billing.receive(delivery);
    expect(answer.status).toBeLessThan(500);
    const { id: _id, type: _type, key: _key, ...receipt } = receipts.at(-1)!;
    const texts = [
      SECRET,
      personal,
      Buffer.from(delivery.body).toString(),
      delivery.header("stripe-signature") ?? "",
    ];
    expect(leaks(`${answer.body} ${JSON.stringify(receipt)}`, ...texts)).toBe(false);
    return answer;
  }

  /** Not genuine: refused with a code, and nothing is written. */
  async function sendForged(delivery: Delivery): Promise<void> {
    const { status, body } = await send(delivery);
    expect([400, 405, 413, 415]).toContain(status);
    expect((JSON.parse(body) as { error: { code: string } }).error.code).toMatch(/^[a-z_]+$/);
    expect(receipts.at(-1)).toMatchObject({ outcome: "refused", status });
    expect(receipts.at(-1)).not.toHaveProperty("id");
  }

  it("are refused when their signature is nonsense", async () => {
    const before = await tasks();
    for (const header of hostileHeaders(signature(genuine))) {
      await sendForged(deliveryOf(genuine, { "stripe-signature": header }));
    }
    for (const seconds of [
      0,
      1,
      Math.floor(Date.now() / 1000) - 301,
      Math.floor(Date.now() / 1000) + 330,
      99_999_999_999,
    ]) {
      await sendForged(deliveryOf(genuine, { "stripe-signature": signature(genuine, SECRET, seconds) }));
    }
    await sendForged({ ...deliveryOf(genuine), header: () => undefined });
    expect(await tasks()).toBe(before);
  });

  it("are refused when a byte of a genuine request is changed, left out or added", async () => {
    const before = await tasks();
    const header = signature(genuine);
    const bytes = Buffer.from(genuine);
    for (let i = 0; i < bytes.length; i++) {
      const changed = Buffer.from(bytes);
      changed[i]! ^= 1 << (i % 8);
      const without = Buffer.concat([bytes.subarray(0, i), bytes.subarray(i + 1)]);
      const added = Buffer.concat([bytes.subarray(0, i), Buffer.of(i % 256), bytes.subarray(i)]);
      for (const body of [changed, without, added])
        await sendForged(deliveryOf(body, { "stripe-signature": header }));
    }
    for (const prefix of [[0xef, 0xbb, 0xbf], [0xff], [0]]) {
      await sendForged(
        deliveryOf(Buffer.concat([Buffer.from(prefix), bytes]), { "stripe-signature": header }),
      );
    }
    expect(await tasks()).toBe(before);
  });

  it("are taken or refused with a code when they are genuine and strange", async () => {
    for (const body of hostileBodies(genuine)) {
      const { status } = await send(deliveryOf(body));
      expect([200, 400]).toContain(status);
      if (status === 400) expect(receipts.at(-1)).toMatchObject({ outcome: "refused" });
    }
  });

  it("are refused by their form", async () => {
    const before = await tasks();
    for (const method of [
      "GET",
      "HEAD",
      "PUT",
      "PATCH",
      "DELETE",
      "OPTIONS",
      "TRACE",
      "CONNECT",
      "",
      "POST ",
      "\0",
    ]) {
      await sendForged(deliveryOf(genuine, {}, method));
    }
    for (const encoding of ["gzip", "br", "x".repeat(10_000), "identity, gzip", "\0", "💥"]) {
      await sendForged(deliveryOf(genuine, { "content-encoding": encoding }));
    }
    await sendForged(deliveryOf(""));
    await sendForged(deliveryOf(Buffer.alloc(app.billing.maxBytes + 1, " ")));
    expect(await tasks()).toBe(before);
  });

  it("of any bytes and any headers are never accepted", async () => {
    const before = await tasks();
    const header = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc
        .array(fc.constantFrom("t=", "v1=", ",", "1750000000", "0".repeat(64), "=", " ", "v0=", "٣", "-"), {
          maxLength: 12,
        })
        .map((parts) => parts.join("")),
      fc.constant(signature(genuine)),
    );
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 400 }),
      fc.json({ maxDepth: 6 }).map((text) => Buffer.from(text)),
      fc.string({ unit: "binary" }).map((text) => Buffer.from(text)),
    );
    const headers = fc.record({
      "stripe-signature": header,
      "content-encoding": fc.constantFrom("", "identity", "gzip"),
    });
    await fc.assert(
      fc.asyncProperty(headers, body, fc.constantFrom("POST", "POST", "POST", "GET"), (some, bytes, method) =>
        sendForged(deliveryOf(bytes, some, method)),
      ),
      { numRuns: 900 },
    );
    expect(await tasks()).toBe(before);
  });

  it("of any JSON, with a genuine signature, are taken or refused with a code", async () => {
    const field = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.constant("event"),
    );
    const strange = fc.record(
      {
        object: fc.oneof({ weight: 5, arbitrary: fc.constantFrom("event", "v2.core.event") }, field),
        id: field,
        type: field,
        livemode: fc.oneof({ weight: 5, arbitrary: fc.boolean() }, field),
        account: field,
        context: field,
        created: field,
        data: fc.oneof(fc.record({ object: fc.record({ id: field }) }), field),
        related_object: field,
        __proto__: field,
      },
      { requiredKeys: ["object", "livemode"] },
    );
    await fc.assert(
      fc.asyncProperty(strange, async (value) => {
        const { status } = await send(deliveryOf(JSON.stringify(value)));
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 500 },
    );
  });

  it("were more than two thousand", () => {
    expect(sent).toBeGreaterThan(2000);
  });
});
