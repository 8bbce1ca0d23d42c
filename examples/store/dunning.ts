import type { Stripe } from "stripe";
import { mail } from "./mail.ts";
import { billing, once } from "./once.ts";
import { idOf } from "./tables.ts";

/**
 * A renewal that failed: reminders on days 1, 3 and 5, and after a week the end; a payment in between stops them. Each
 * invoice is a subject of its own, as `subscription/invoice`, so that a failure told after its payment is refused.
 */
const dunning = once.machine("dunning", {
  initial: "open",
  states: {
    open: {},
    failed: { after: { "1 day": "remind", "3 days": "remind", "5 days": "remind", "7 days": "give_up" } },
    paid: {},
    ended: {},
  },
  moves: {
    // A second failure is no move from `failed`: the days go on counting from the first.
    fail: { from: ["open"], to: "failed" },
    remind: {
      from: ["failed"],
      to: "failed",
      run: async ({ subject, after, tx, enqueue }) => {
        const { rows } = await tx.query<{ email: string }>(
          `select email from store.customers join store.access using (customer)
           where subscription_id = $1 and email is not null`,
          [subscriptionOf(subject)],
        );
        const text = `Please check your card: it has failed for ${after}.`;
        for (const { email } of rows)
          await enqueue(mail, { to: email, subject: "Your payment failed", text });
      },
    },
    pay: { from: ["open", "failed", "ended"], to: "paid" },
    give_up: {
      from: ["failed"],
      to: "ended",
      run: ({ subject, tx }) =>
        tx.query("update store.access set status = 'canceled' where subscription_id = $1", [
          subscriptionOf(subject),
        ]),
    },
  },
});

for (const [type, move] of [
  ["invoice.payment_failed", "fail"],
  ["invoice.paid", "pay"],
] as const) {
  billing.on(type, { name: `dunning-${move}` }, async ({ event, tx, scope, key }) => {
    const subject = subjectOf(event.data.object);
    if (subject) await dunning.move(subject, move, { tx, cause: { scope, key } });
  });
}

/** Nothing for an invoice that renews no subscription. */
function subjectOf({ id, parent }: Stripe.Invoice): string | undefined {
  const subscription = idOf(parent?.subscription_details?.subscription);
  return id && subscription ? `${subscription}/${id}` : undefined;
}

function subscriptionOf(subject: string): string {
  return subject.split("/", 1)[0] ?? subject;
}
