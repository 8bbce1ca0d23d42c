import Stripe from "stripe";
import { billing } from "./once.ts";
import { idOf } from "./tables.ts";

/** Within one second, in which Stripe's `created` cannot tell them apart. */
function rank(type: string): number {
  if (type === "customer.subscription.created") return 0;
  return type === "customer.subscription.deleted" ? 2 : 1;
}

const apiKey = process.env["STRIPE_API_KEY"];
const client = apiKey ? new Stripe(apiKey) : undefined;

// Events come in any order, and access must end up the same: only what is newer is applied. A customer's newest
// subscription counts, so that the end of an old one takes nothing from who has come back. One handler for all
// types, since it is within a handler that versions are compared.
billing.on(
  "customer.subscription.*",
  {
    applyIfNewer: {
      id: (event) => idOf(event.data.object.customer) ?? event.data.object.id,
      object: (event) => event.data.object,
      // Text, which is compared from left to right.
      version: ({ data, created, type }) => `${data.object.created} ${created} ${rank(type)}`,
      // Two changes within a second: Stripe knows which was the last. Without a key to ask with, the first one stays.
      refetch: client ? (event) => client.subscriptions.retrieve(event.data.object.id) : "none",
    },
  },
  async ({ object: subscription, tx }) => {
    const item = subscription.items.data[0];
    await tx.query(
      `insert into store.access (customer, subscription_id, plan, status, current_period_end)
       values ($1, $2, $3, $4, to_timestamp($5::double precision))
       on conflict (customer) do update set subscription_id = excluded.subscription_id, plan = excluded.plan,
         status = excluded.status, current_period_end = excluded.current_period_end`,
      [
        idOf(subscription.customer),
        subscription.id,
        item?.price.id,
        subscription.status,
        item?.current_period_end,
      ],
    );
  },
);
