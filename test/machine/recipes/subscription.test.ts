import { describe, expect, it } from "vitest";
import { subscriptions } from "../../../examples/recipes/subscription.ts";
import type { Once } from "../../../src/once.ts";
import { stripe } from "../../../src/source/stripe.ts";
import { proveHandler } from "../../../src/testing/index.ts";
import { deliveryOf, event, SECRET } from "../../handler/support.ts";
import { day } from "../support.ts";
import type { Order } from "./child.ts";
import { Provider } from "./provider.ts";
import { scenes, untilKilled } from "./support.ts";

const reminders = ["payment failed, 1 day", "payment failed, 3 days", "payment failed, 5 days"];
const subject = "sub_1/in_1";

type Sent = ReturnType<typeof event>;

const invoiceEvent = (type: string, id = "in_1"): Sent =>
  event(type, { data: { object: { id, parent: { subscription_details: { subscription: "sub_1" } } } } });
const failed = (id?: string): Sent => invoiceEvent("invoice.payment_failed", id);
const paid = (id?: string): Sent => invoiceEvent("invoice.paid", id);

describe("the subscription", () => {
  const scene = scenes();

  async function open() {
    const { bench } = scene();
    const once = bench.once as unknown as Once;
    const provider = new Provider(bench.database);
    await provider.open();
    const billing = once.source(stripe({ secrets: SECRET }));
    const machines = subscriptions(once, billing, ({ notice }, key) => provider.send(notice, key));
    await bench.engine.start();
    const deliver = async (...sent: Sent[]): Promise<void> => {
      for (const one of sent) {
        expect(await billing.receive(deliveryOf(JSON.stringify(one)))).toMatchObject({ status: 200 });
        await bench.settle();
      }
    };
    const states = async (): Promise<string[]> => [
      (await machines.subscription.state("sub_1")).state,
      (await machines.invoice.state(subject)).state,
    ];
    return { bench, provider, billing, deliver, states, ...machines };
  }

  it("reminds on days 1, 3 and 5 after a failed payment, then ends", async () => {
    const { bench, provider, deliver, states } = await open();
    await deliver(failed());
    const counts = [];
    for (let days = 0; days <= 8; days++) {
      counts.push((await provider.sent()).length);
      await bench.pass(day);
    }
    expect(counts).toEqual([0, 1, 1, 2, 2, 3, 3, 4, 4]);
    expect(await provider.sent()).toEqual([...reminders, "canceled"]);
    expect(await states()).toEqual(["canceled", "abandoned"]);
  });

  it("stops reminding when the invoice is paid", async () => {
    const { bench, provider, deliver, states } = await open();
    await deliver(failed());
    for (let days = 0; days < 4; days++) await bench.pass(day);
    expect(await states()).toEqual(["past_due", "unpaid"]);
    await deliver(paid());
    await bench.pass(30 * day);
    expect(await provider.sent()).toEqual(reminders.slice(0, 2));
    expect(await states()).toEqual(["active", "paid"]);
  });

  it("counts from the first failure, whatever fails or is delivered again", async () => {
    const { bench, provider, billing, deliver } = await open();
    const first = failed();
    const storm = Array.from({ length: 10 }, () => billing.receive(deliveryOf(JSON.stringify(first))));
    for (const answer of await Promise.all(storm)) expect(answer.status).toBe(200);
    await bench.settle();
    await bench.pass(2 * day);
    // Stripe's own retry failed too: another event. And the first one comes once more.
    await deliver(failed(), first);
    await bench.pass(day);
    await deliver(failed(), first);
    expect(await provider.sent()).toEqual(reminders.slice(0, 2));
    await bench.pass(2 * day);
    await bench.pass(2 * day);
    expect(await provider.sent()).toEqual([...reminders, "canceled"]);
  });

  it("takes a payment that is told twice once", async () => {
    const { bench, deliver, subscription, invoice } = await open();
    const payment = paid();
    await deliver(failed(), payment, payment, paid());
    await bench.pass(30 * day);
    expect((await invoice.history(subject)).map(({ move }) => move)).toEqual(["fail", "pay"]);
    expect((await subscription.history("sub_1")).map(({ move }) => move)).toEqual(["fall_behind", "recover"]);
  });

  it("ends the same in whatever order a failure and its payment are told", async () => {
    const { bench, provider, billing, invoice, subscription } = await open();
    for (const [i, order] of permutations(["failed", "failed again", "paid", "paid again"]).entries()) {
      const id = `in_${i + 10}`;
      for (const told of order) {
        const sent = told.startsWith("paid") ? paid(id) : failed(id);
        await billing.receive(deliveryOf(JSON.stringify(sent)));
        await bench.settle();
      }
      expect([order, await invoice.state(`sub_1/${id}`)]).toMatchObject([
        order,
        { state: "paid", timers: [] },
      ]);
      expect([order, await subscription.state("sub_1")]).toMatchObject([order, { state: "active" }]);
    }
    await bench.pass(30 * day);
    expect(await provider.sent()).toEqual([]);
  });

  it("knows for every move which task brought it about", async () => {
    const { bench, deliver, subscription, invoice } = await open();
    const first = failed();
    await deliver(first);
    await bench.pass(7 * day);
    for (let i = 0; i < 5; i++) await bench.pass(1_000);
    expect((await subscription.history("sub_1")).map(({ move, cause }) => [move, cause])).toEqual([
      ["fall_behind", `stripe ${first.id}`],
      ["cancel", `machine/invoice ${subject} v1 abandon after 7 days`],
    ]);
    expect((await invoice.history(subject)).map(({ move }) => move)).toEqual([
      "fail",
      "remind",
      "remind",
      "remind",
      "abandon",
    ]);
  });

  it.each([failed(), paid()])("has handlers that can be proven: %#", async (sent) => {
    const once = scene().bench.once as unknown as Once;
    const source = once.source(stripe({ secrets: SECRET }));
    const { invoice } = subscriptions(once, source, async () => {});
    const proof = await proveHandler({
      once,
      source,
      event: sent,
      twins: [{ ...sent, id: `${sent.id}_twin` }],
      replay: true,
      // The failure comes to an open invoice, the payment to one that is unpaid.
      arrange: () => (sent.type === "invoice.paid" ? invoice.move(subject, "fail") : undefined),
    });
    expect(proof.report).toContain("all 9 trials hold");
  });

  it.each<Order["die"]>(["before the mail is sent", "after the mail was sent"])(
    "reminds once where the process was killed between the move and the mail, %s",
    async (die) => {
      const { bench, provider, deliver, invoice } = await openUnstarted();
      await deliver();
      await bench.advance(day);
      expect(await untilKilled({ url: scene().url, recipe: "subscription", die })).toBe("SIGKILL");
      expect((await invoice.history(subject)).map(({ move }) => move)).toEqual(["fail", "remind"]);
      await bench.engine.start();
      // The lease of the dead process runs out.
      await bench.pass(120_000);
      expect(await provider.sent()).toEqual(reminders.slice(0, 1));
      expect(await invoice.history(subject)).toHaveLength(2);
    },
  );

  /** The invoice has failed, and no worker runs here yet. */
  async function openUnstarted() {
    const { bench } = scene();
    const provider = new Provider(bench.database);
    await provider.open();
    const nobody = { on: () => nobody } as unknown as Parameters<typeof subscriptions>[1];
    const machines = subscriptions(bench.once as unknown as Once, nobody, ({ notice }, key) =>
      provider.send(notice, key),
    );
    return { bench, provider, deliver: () => machines.invoice.move(subject, "fail"), ...machines };
  }
});

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}
