import { mail } from "./mail.ts";
import { billing, once } from "./once.ts";
import { emailOf, idOf } from "./tables.ts";

/** A renewal that failed: reminders on days 1, 3 and 5, then the end; a payment in between stops them. */
const dunning = once.machine("dunning", {
  initial: "paid",
  states: {
    paid: {},
    failed: { after: { "1 day": "remind", "3 days": "remind", "5 days": "remind", "6 days": "give_up" } },
    ended: {},
  },
  moves: {
    fail: { from: ["paid"], to: "failed" },
    remind: {
      from: ["failed"],
      to: "failed",
      run: async ({ subject: customer, after, tx, enqueue }) => {
        const to = await emailOf(tx, customer);
        if (to)
          await enqueue(mail, {
            to,
            subject: "Your payment failed",
            text: `Please check your card (${after}).`,
          });
      },
    },
    recover: { from: ["failed"], to: "paid" },
    give_up: {
      from: ["failed"],
      to: "ended",
      run: ({ subject, tx }) =>
        tx.query("update store.access set status = 'canceled' where customer = $1", [subject]),
    },
  },
});

billing.on("invoice.payment_failed", async ({ event, tx, scope, key }) => {
  const customer = idOf(event.data.object.customer);
  if (customer) await dunning.move(customer, "fail", { tx, cause: { scope, key } });
});

billing.on("invoice.paid", { name: "dunning-ends" }, async ({ event, tx, scope, key }) => {
  const customer = idOf(event.data.object.customer);
  if (customer) await dunning.move(customer, "recover", { tx, cause: { scope, key } });
});
