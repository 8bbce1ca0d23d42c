import type Stripe from "stripe";
import { describe, expectTypeOf, it } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import type { EventOf } from "../../src/handler/handler.ts";
import type { ConnectedSource } from "../../src/handler/source.ts";
import type { Job } from "../../src/job/job.ts";
import type { JsonObject } from "../../src/source/json.ts";
import type { StripeEvents } from "../../src/source/stripe.ts";

type Invoices = Extract<Stripe.Event, { type: `invoice.${string}` }>;

/** Compiled and never called: what matters is what the compiler says. */
export function compiled(
  billing: ConnectedSource<StripeEvents, PgClient>,
  acme: ConnectedSource<Record<string, JsonObject>, PgClient>,
  mail: Job<{ to: string }>,
  client: Stripe,
): void {
  billing
    .on("checkout.session.completed", async ({ event, tx, enqueue, once, object }) => {
      expectTypeOf(event).toEqualTypeOf<Extract<Stripe.Event, { type: "checkout.session.completed" }>>();
      expectTypeOf(event.data.object).toEqualTypeOf<Stripe.Checkout.Session>();
      expectTypeOf(tx).toEqualTypeOf<PgClient>();
      expectTypeOf(object).toEqualTypeOf<undefined>();
      expectTypeOf(await once("a")).toEqualTypeOf<boolean>();
      await enqueue(mail, { to: "a" });
      // @ts-expect-error -- the input of this job is another
      await enqueue(mail, { from: "a" });
    })
    .on("invoice.*", { name: "all" }, ({ event }) => {
      expectTypeOf(event.type).toEqualTypeOf<Invoices["type"]>();
      if (event.type === "invoice.paid") expectTypeOf(event.data.object).toEqualTypeOf<Stripe.Invoice>();
    })
    .on("newer.than.the.sdk*", ({ event }) => void event.type)
    .on(
      "customer.subscription.*",
      {
        serialBy: (event) => event.data.object.id,
        applyIfNewer: {
          id: (event) => event.data.object.id,
          object: (event) => event.data.object,
          version: (event) => event.created,
          final: (event) => event.type === "customer.subscription.deleted",
          refetch: (event) => client.subscriptions.retrieve(event.data.object.id),
        },
      },
      ({ object }) => {
        expectTypeOf(object).toExtend<Stripe.Subscription>();
        expectTypeOf(object.status).toEqualTypeOf<Stripe.Subscription.Status>();
      },
    )
    .on("invoice.paid", { name: "many", together: 100 }, async ({ events, tx }) => {
      expectTypeOf(tx).toEqualTypeOf<PgClient>();
      for (const { event, once, enqueue } of events) {
        expectTypeOf(event).toEqualTypeOf<Stripe.InvoicePaidEvent>();
        if (await once(event.id)) await enqueue(mail, { to: event.id });
      }
    })
    .fallback(({ event }) => void event.type);
  // @ts-expect-error -- there is no one event
  billing.on("invoice.paid", { together: 100 }, ({ event }) => void event);
  // @ts-expect-error -- without `together` there is but one event
  billing.on("invoice.paid", ({ events }) => void events);
  // @ts-expect-error -- no such type
  billing.on("invoice.payed", () => undefined);
  acme.on("anything.at.all", ({ event }) => expectTypeOf(event).toEqualTypeOf<JsonObject>());
}

describe("the types of handlers", () => {
  it("are those of the sender's own events", () => {
    expectTypeOf<EventOf<StripeEvents, "invoice.paid">>().toEqualTypeOf<Stripe.InvoicePaidEvent>();
    expectTypeOf<
      EventOf<StripeEvents, "customer.subscription.*">["type"]
    >().toExtend<`customer.subscription.${string}`>();
    expectTypeOf<EventOf<{ a: 1; b: 2 }, "*">>().toEqualTypeOf<1 | 2>();
  });
});
