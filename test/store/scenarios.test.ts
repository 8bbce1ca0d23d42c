import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { stormEvent, type StormEvent } from "../../src/cli/storm/events.ts";
import { type FreshDatabase, freshDatabase, needs } from "../support/postgres.ts";
import { checkout, freshTag, StoreServer } from "./server.ts";

const one = { orders: 1, mails: 1 };
const counts = ({ orders, mails }: { orders: string[]; mails: string[] }): typeof one => ({
  orders: orders.length,
  mails: mails.length,
});

for (const kind of ["embedded", "real"] as const) {
  describe(`the store on ${kind === "embedded" ? "the embedded database" : "a real Postgres"}`, () => {
    let database: FreshDatabase | undefined;
    let server: StoreServer;
    if (kind === "real") beforeEach(needs.postgres);

    beforeAll(async () => {
      if (kind === "real") {
        database = await freshDatabase().catch(() => undefined);
        if (!database) return;
      }
      server = await StoreServer.create(database ? { DATABASE_URL: database.url } : {});
      await server.start();
    });

    afterAll(async () => {
      await server?.remove();
      await database?.drop();
    });

    /** The tag of events whose order and mail are waited for. */
    const effectsOf = async (tag: string): Promise<typeof one> =>
      counts(await server.settled(tag, ({ effects }) => effects.mails.length > 0));

    it("delivered once: one order and one mail", async () => {
      const tag = freshTag();
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("server failed, then retried: one order and one mail", async () => {
      const tag = freshTag();
      await server.end("SIGKILL");
      expect(await server.deliver(checkout(tag))).toBe(0);
      await server.start();
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("slow and timed out, with a retry meanwhile: one order and one mail", async () => {
      const tag = freshTag();
      server.pause();
      expect(await server.deliver(checkout(tag), 300)).toBe(0);
      const retry = server.deliver(checkout(tag));
      server.resume();
      expect(await retry).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("killed in the middle of it, then retried: one order and one mail", async () => {
      for (let round = 0; round < 4; round++) {
        const tag = freshTag();
        const first = server.deliver(checkout(tag), 5_000);
        await new Promise((resolve) => setTimeout(resolve, round * 15));
        await server.end("SIGKILL");
        await first;
        await server.start();
        await server.deliverUntilTaken(checkout(tag));
        expect(await effectsOf(tag)).toEqual(one);
      }
    });

    it("down for long, and then 25 retries at once: one order and one mail", async () => {
      const tag = freshTag();
      await server.end("SIGTERM");
      expect(await server.deliver(checkout(tag))).toBe(0);
      await server.start();
      const answers = await Promise.all(Array.from({ length: 25 }, () => server.deliver(checkout(tag))));
      expect(new Set(answers)).toEqual(new Set([200]));
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("twins of one fact: one order, one mail and one credit", async () => {
      const tag = freshTag();
      const invoice = (twin: boolean): StormEvent => stormEvent("invoice.paid", tag, 1, twin);
      const events = [checkout(tag, 0), checkout(tag, 0, true), invoice(true), invoice(false)];
      await Promise.all([...events, ...events].map((event) => server.deliver(event)));
      const effects = await server.settled(
        tag,
        (told) => told.effects.mails.length > 0 && told.effects.credits.length > 0,
      );
      expect({ ...counts(effects), credits: effects.credits.length }).toEqual({ ...one, credits: 1 });
    });

    it("a subscription in any order: the same access", async () => {
      const types = ["created", "updated", "deleted"].map((kind) => `customer.subscription.${kind}`);
      const orders = [
        [0, 1, 2],
        [2, 1, 0],
        [1, 2, 0],
        [2, 0, 1],
      ];
      for (const order of orders) {
        const tag = freshTag();
        for (const i of order) {
          const event = stormEvent(types[i] as string, tag, 0);
          const sent = JSON.parse(event.body) as { id: string; data: { object: { status: string } } };
          sent.id = `${event.id}_${i}`;
          sent.data.object.status = i === 2 ? "canceled" : "active";
          expect(await server.deliver({ ...event, body: JSON.stringify(sent) })).toBe(200);
        }
        const { access } = await server.settled(tag, (told) => told.recorded === 3);
        expect(access).toEqual([`cus_${tag}_0 canceled`]);
      }
    });

    it("unpaid sessions are not fulfilled", async () => {
      const tag = freshTag();
      const event = checkout(tag);
      await server.deliver({
        ...event,
        body: event.body.replace('"payment_status":"paid"', '"payment_status":"unpaid"'),
      });
      const effects = await server.settled(tag, ({ recorded }) => recorded === 1);
      expect(counts(effects)).toEqual({ orders: 0, mails: 0 });
    });

    it("a second start on the same folder finds everything", async () => {
      const tag = freshTag();
      await server.deliver(checkout(tag));
      await effectsOf(tag);
      await server.end("SIGTERM");
      await server.start();
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("says no secret and no payload in its log", () => {
      expect(server.output).not.toMatch(/whsec_|example@example\.com|customer_details/);
    });
  });
}
