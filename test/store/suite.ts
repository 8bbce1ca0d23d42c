/** What must hold for the running store, seen from outside, whatever its database is. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, type TestContext } from "vitest";
import type { StormEvent } from "../../src/cli/storm/events.ts";
import { type Failure } from "../mail/smtp.ts";
import { onceward, store } from "./cli.ts";
import { checkout, eventOf, freshTag } from "./events.ts";
import { StoreServer } from "./server.ts";

export interface StoreDatabase {
  readonly env: Record<string, string>;
  /** For a database that `restarts`. */
  kill?(): Promise<void>;
  restart?(): Promise<void>;
  remove(): Promise<void>;
}

export interface StoreCase {
  readonly name: string;
  /** Skips a test where the database cannot be had. */
  readonly needs?: (context: TestContext) => Promise<void>;
  /** It can be killed apart from the store. */
  readonly restarts: boolean;
  open(): Promise<StoreDatabase | undefined>;
}

const one = { orders: 1, mails: 1 };

export function storeSuite({ name, needs, restarts, open }: StoreCase): void {
  describe(`the store on ${name}`, () => {
    let database: StoreDatabase | undefined;
    let server: StoreServer;
    if (needs) beforeEach(needs);

    beforeAll(async () => {
      database = await open();
      if (!database) return;
      server = await StoreServer.create(database.env);
      await server.start();
    });
    afterAll(async () => {
      await server?.remove();
      await database?.remove();
    });

    const mailsOf = async (tag: string): Promise<number> => (await server.mails(`Order cs_${tag}_0`)).length;
    /** What became of a checkout, once its mail is out and nothing is under way any more. */
    async function effectsOf(tag: string): Promise<typeof one> {
      const { orders } = await server.settled(tag, async () => (await mailsOf(tag)) > 0);
      return { orders: orders.length, mails: await mailsOf(tag) };
    }

    it("delivered once: one order and one mail", async () => {
      const tag = freshTag();
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("delivered 25 times at once: one order and one mail", async () => {
      const tag = freshTag();
      const answers = await Promise.all(Array.from({ length: 25 }, () => server.deliver(checkout(tag))));
      expect(new Set(answers)).toEqual(new Set([200]));
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

    it("a handler that fails after the claim is tried again: one order and one mail", async () => {
      const tag = freshTag("failing");
      expect(await server.deliver(checkout(tag))).toBe(200);
      await server.says(new RegExp(`"attempt failed".*${tag}.*"state":"waiting"`));
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("twins of one fact: one order, one mail and one credit", async () => {
      const tag = freshTag();
      const twins = [
        checkout(tag),
        checkout(tag, true),
        eventOf("invoice.payment_succeeded", tag, { id: `evt_${tag}_first` }),
        eventOf("invoice.paid", tag, { id: `evt_${tag}_second` }),
      ];
      await Promise.all([...twins, ...twins].map((event) => server.deliver(event)));
      expect(await effectsOf(tag)).toEqual(one);
      const { credits } = await server.settled(tag, (effects) => effects.credits.length > 0);
      expect(credits).toEqual([`in_${tag}_0`]);
      // Nor did one of them run into the row of the other.
      expect(server.output).not.toMatch(new RegExp(`"attempt failed".*${tag}.*"error":"23505"`));
    });

    it("a session that is not paid yet is fulfilled when it is", async () => {
      const tag = freshTag();
      await server.deliver(
        eventOf("checkout.session.completed", tag, { object: { payment_status: "unpaid" } }),
      );
      const { orders } = await server.settled(tag, (_, recorded) => recorded === 1);
      expect({ orders: orders.length, mails: await mailsOf(tag) }).toEqual({ orders: 0, mails: 0 });
      await server.deliver(checkout(tag, true));
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("a refund is taken back once, and in parts as far as it has come", async () => {
      const tag = freshTag();
      const refund = (id: string, amount: number): StormEvent =>
        eventOf("charge.refunded", tag, { id: `evt_${tag}_${id}`, object: { amount_refunded: amount } });
      const [all, part] = [refund("all", 1900), refund("part", 900)];
      for (const event of [all, part, all, part]) expect(await server.deliver(event)).toBe(200);
      const { refunds } = await server.settled(tag, (_, recorded) => recorded === 2);
      expect(refunds).toEqual([`refund:ch_${tag}_0 -1900`]);
    });

    describe("a subscription", () => {
      const kinds = ["created", "updated", "deleted"] as const;
      const change = (
        tag: string,
        kind: (typeof kinds)[number],
        object: { id?: string; created?: number } = {},
      ) =>
        eventOf(`customer.subscription.${kind}`, tag, {
          id: `evt_${tag}_${kind}_${object.id ?? ""}`,
          // Of one second, as they often are.
          created: 1_760_000_000,
          object: { status: kind === "deleted" ? "canceled" : "active", ...object },
        });

      it("gives the same access in any order", async () => {
        for (const order of [
          [0, 1, 2],
          [2, 1, 0],
          [1, 2, 0],
          [2, 0, 1],
        ]) {
          const tag = freshTag();
          for (const i of order) expect(await server.deliver(change(tag, kinds[i]!))).toBe(200);
          const { access } = await server.settled(tag, (_, recorded) => recorded === 3);
          expect(access).toEqual([`cus_${tag}_0 canceled`]);
        }
      });

      it("that ended takes nothing from a customer who came back", async () => {
        const tag = freshTag();
        const back = { id: `sub_${tag}_back`, created: 1_750_000_000 };
        const events = [change(tag, "created", back), change(tag, "deleted"), change(tag, "updated")];
        for (const event of events) expect(await server.deliver(event)).toBe(200);
        const { access } = await server.settled(tag, (_, recorded) => recorded === 3);
        expect(access).toEqual([`cus_${tag}_0 active`]);
      });
    });

    it("dunning: three reminders and the end, or a payment that stops them", async () => {
      const [pays, never] = [freshTag(), freshTag()];
      for (const tag of [pays, never]) {
        await server.deliver(eventOf("customer.created", tag, { object: { email: `${tag}@example.com` } }));
        await server.deliver(eventOf("customer.subscription.created", tag, { object: { status: "active" } }));
        await server.settled(tag, ({ access }) => access.length === 1);
        await server.deliver(invoice("invoice.payment_failed", tag));
        await server.settled(tag, (_, recorded) => recorded === 3);
      }
      const reminders = async (tag: string): Promise<number> => {
        const mails = await server.mails(`To: ${tag}@example.com`);
        return mails.filter((mail) => mail.includes("Subject: Your payment failed")).length;
      };
      const reminded = (tag: string, times: number) =>
        server.settled(tag, async () => (await reminders(tag)) >= times);

      await server.pass(1.1);
      for (const tag of [pays, never]) await reminded(tag, 1);
      await server.deliver(invoice("invoice.paid", pays));
      await server.settled(pays, ({ credits }) => credits.length === 1);
      // Told late: it is paid, and stays so.
      await server.deliver(invoice("invoice.payment_failed", pays, "_again"));
      await server.pass(2);
      await reminded(never, 2);
      await server.pass(2);
      await reminded(never, 3);
      await server.pass(2);
      await server.settled(never, ({ access }) => access[0] === `cus_${never}_0 canceled`);

      expect([await reminders(pays), await reminders(never)]).toEqual([1, 3]);
      expect((await server.settled(pays)).access).toEqual([`cus_${pays}_0 active`]);
    });

    it("the welcome drip: each letter once, in order, however often it is told", async () => {
      const tag = freshTag();
      const created = eventOf("customer.created", tag, { object: { email: `${tag}@example.com` } });
      const letters = async (): Promise<string[]> =>
        (await server.mails(`To: ${tag}@example.com`)).map(
          (mail) => /^Subject: (.*?)\r?$/m.exec(mail)?.[1] ?? "",
        );
      const seen: string[] = [];
      for (const days of [0, 2.1, 3.1, 10]) {
        if (days > 0) await server.pass(days);
        await Promise.all([server.deliver(created), server.deliver(created)]);
        await server.settled(tag, async () => (await letters()).length >= Math.min(seen.length + 1, 3));
        seen.push(...(await letters()).filter((letter) => !seen.includes(letter)));
      }
      expect(seen).toEqual(["Welcome!", "What others made with it", "Your first dollar"]);
      expect(await letters()).toHaveLength(3);
    });

    it("a storm of twins in any order finds nothing doubled and nothing lost", async () => {
      const types = "checkout.session.completed,invoice.paid";
      const { code, stdout, stderr } = await onceward(
        [
          "storm",
          "--url",
          server.url,
          "--type",
          types,
          "--events",
          "6",
          "--deliveries",
          "4",
          "--reorder",
          "--twin",
          "--json",
        ],
        { cwd: server.folder, env: server.env },
      );
      expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
      // Six facts, each with its twin: three orders with their mails, three credits.
      expect(JSON.parse(stdout)).toMatchObject({
        deliveries: 48,
        answers: { 200: 48 },
        recorded: 12,
        orders: 3,
        mails: 3,
        credits: 3,
        doubled: 0,
        lost: 0,
      });
    });

    it("one event can be triggered", async () => {
      const { code, stdout } = await onceward(["trigger", "payout.created", "--url", server.url], {
        cwd: server.folder,
        env: server.env,
      });
      expect(stdout).toMatch(/^payout\.created evt_\w+ about po_\w+: 200\n$/);
      expect(code).toBe(0);
    });

    const get = async (path: string): Promise<string> => {
      const response = await fetch(`${server.url}${path}`, { headers: { connection: "close" } });
      return `${response.status} ${await response.text()}`;
    };

    it("says how it is", async () => {
      expect(await get("/healthz")).toMatch(/^200 .*"ok"/);
      expect(await get("/readyz")).toMatch(/^200 .*"ready"/);
      await server.deliver(checkout(freshTag()));
      expect(await get("/metrics")).toMatch(
        /^200 [^]*\nonceward_deliveries_total{source="stripe",outcome="accepted"} \d+\n/,
      );
    });

    // The embedded one lives in the store's process, which is killed below.
    if (restarts)
      it("the database restarted in the middle: 503 meanwhile, then one order and one mail", async () => {
        const tags = Array.from({ length: 8 }, () => freshTag());
        const deliveries = [...tags, ...tags].map((tag) => server.deliverUntil(200, checkout(tag)));
        await Promise.race(deliveries);
        await database!.kill!();
        await server.deliverUntil(503, checkout(tags[0]!));
        // The process is well, and says that it can do nothing.
        await expect.poll(() => get("/readyz"), { timeout: 60_000 }).toMatch(/^503 .*"not ready"/);
        expect(await get("/healthz")).toMatch(/^200 /);
        await database!.restart!();
        await Promise.all(deliveries);
        for (const tag of tags) expect(await effectsOf(tag)).toEqual(one);
      });

    it("killed in the middle of it, then retried: one order and one mail", async () => {
      const tags = Array.from({ length: 8 }, () => freshTag());
      const deliveries = tags.map((tag) => server.deliver(checkout(tag)));
      // One is taken and perhaps done; the others are anywhere on their way.
      await Promise.race(deliveries);
      await server.end("SIGKILL");
      const answers = await Promise.all(deliveries);
      expect(await server.deliver(checkout(tags[0]!))).toBe(0);
      await server.start();
      // What was answered with a 2xx comes back by itself; the rest is delivered again, as the sender does.
      const unanswered = tags.filter((_, i) => answers[i] !== 200);
      await Promise.all(unanswered.map((tag) => server.deliverUntil(200, checkout(tag))));
      for (const tag of tags) expect(await effectsOf(tag)).toEqual(one);
    });

    it("down for long, and then 25 retries at once: one order and one mail, and all from before is there", async () => {
      const [before, tag] = [freshTag(), freshTag()];
      await server.deliver(checkout(before));
      expect(await effectsOf(before)).toEqual(one);
      await server.end("SIGTERM");
      expect(await server.deliver(checkout(tag))).toBe(0);
      await server.start({ mail: "smtp" });
      const answers = await Promise.all(
        Array.from({ length: 25 }, (_, i) => server.deliver(checkout(i < 20 ? tag : before))),
      );
      expect(new Set(answers)).toEqual(new Set([200]));
      expect(await effectsOf(tag)).toEqual(one);
      expect(await effectsOf(before)).toEqual(one);
    });

    it("a mail server that fails before it has the mail: one order and one mail", async () => {
      const failures: Failure[] = [
        { at: "connect", code: 421 },
        { at: "rcpt to", code: 451 },
        { at: "mail from" },
      ];
      for (const failure of failures) {
        const tag = freshTag();
        server.smtp.fail(failure);
        expect(await server.deliver(checkout(tag))).toBe(200);
        expect(await effectsOf(tag)).toEqual(one);
      }
    });

    it("a mail server that took the mail and did not say so: one mail, and a task in sight", async () => {
      const tag = freshTag();
      server.smtp.fail({ at: "after" });
      expect(await server.deliver(checkout(tag))).toBe(200);
      await server.says(/"attempt failed".*"scope":"job\/mail".*"state":"unknown"/);
      expect(await server.deliver(checkout(tag))).toBe(200);
      expect(await effectsOf(tag)).toEqual(one);
    });

    it("says no secret and no personal datum in its log", () => {
      expect(server.output).toContain('"message":"received accepted"');
      expect(server.output).not.toMatch(/whsec_|@example\.com|customer_details/);
    });

    it("a storm that kills the server finds nothing doubled and nothing lost", async () => {
      await server.end("SIGTERM");
      const { code, stdout, stderr } = await onceward(
        [
          "storm",
          "--kill",
          store,
          "--kills",
          "1",
          "--events",
          "20",
          "--deliveries",
          "3",
          "--concurrency",
          "8",
          "--json",
        ],
        { cwd: server.folder, env: server.env },
      );
      expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
      const told = JSON.parse(stdout) as { kills: number };
      expect(told).toMatchObject({
        deliveries: 60,
        recorded: 20,
        orders: 20,
        mails: 20,
        doubled: 0,
        lost: 0,
      });
      expect(told.kills).toBe(1);
    });
  });
}

/** Of the subscription and the customer with the same tag. */
function invoice(type: "invoice.paid" | "invoice.payment_failed", tag: string, again = ""): StormEvent {
  return eventOf(type, tag, {
    id: `evt_${tag}_${type}${again}`,
    object: { parent: { subscription_details: { subscription: `sub_${tag}_0` } } },
  });
}
