import { mail } from "./mail.ts";
import { billing, once } from "./once.ts";
import { emailOf, idOf } from "./tables.ts";

/**
 * A renewal that failed: reminders on days 1, 3 and 5, then the end; a payment in between stops them. Each invoice is a
 * subject of its own, as `customer/invoice`, so that a failure told after its payment is refused.
 */
const dunning = once.machine("dunning", {
  initial: "open",
  states: {
    open: {},
    paid: {},
    failed: { after: { "1 day": "remind", "3 days": "remind", "5 days": "remind", "6 days": "give_up" } },
    ended: {},
  },
  moves: {
    fail: { from: ["open"], to: "failed" },
    remind: {
      from: ["failed"],
      to: "failed",
      run: async ({ subject, after, tx, enqueue }) => {
        const to = await emailOf(tx, customerOf(subject));
        if (to)
          await enqueue(mail, {
            to,
            subject: "Your payment failed",
            text: `Please check your card (${after}).`,
          });
      },
    },
    pay: { from: ["open", "failed"], to: "paid" },
    give_up: {
      from: ["failed"],
      to: "ended",
      run: ({ subject, tx }) =>
        tx.query("update store.access set status = 'canceled' where customer = $1", [customerOf(subject)]),
    },
  },
});

billing.on("invoice.payment_failed", async ({ event, tx, scope, key }) => {
  const subject = subjectOf(event.data.object);
  if (subject) await dunning.move(subject, "fail", { tx, cause: { scope, key } });
});

billing.on("invoice.paid", { name: "dunning-ends" }, async ({ event, tx, scope, key }) => {
  const subject = subjectOf(event.data.object);
  if (subject) await dunning.move(subject, "pay", { tx, cause: { scope, key } });
});

function subjectOf({
  id,
  customer,
}: {
  id?: string;
  customer: Parameters<typeof idOf>[0];
}): string | undefined {
  const owner = idOf(customer);
  return id && owner ? `${owner}/${id}` : undefined;
}

function customerOf(subject: string): string {
  return subject.split("/", 1)[0] ?? subject;
}
