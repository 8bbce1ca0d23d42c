import { billing } from "./once.ts";
import { idOf } from "./tables.ts";

/** Within one second, in which Stripe's `created` cannot tell them apart. */
function rank(type: string): number {
  if (type === "customer.subscription.created") return 0;
  return type === "customer.subscription.deleted" ? 2 : 1;
}

// Events come in any order, and access must end up the same: only what is newer is applied, and nothing comes
// after the end. One handler for all of them, since it is within a handler that versions are compared.
billing.on(
  "customer.subscription.*",
  {
    applyIfNewer: {
      id: (event) => event.data.object.id,
      object: (event) => event.data.object,
      version: (event) => event.created * 10 + rank(event.type),
      final: (event) => event.type === "customer.subscription.deleted",
      // With an API key: (event) => client.subscriptions.retrieve(event.data.object.id)
      refetch: "none",
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
