/*
 * Event types that can happen only once to an object, for which a second event (a twin: another id,
 * the same fact) is a duplicate. A type belongs here only if a later event of it about the same
 * object cannot mean anything new, for what is listed wrongly is lost. So these are left out:
 * - everything `*.updated`, `*.trial_will_end`, `charge.refunded`, `*.payment_failed`: they recur;
 * - `invoice.paid`, `invoice.payment_succeeded`: sent per payment attempt, and an invoice can take several;
 * - `checkout.session.async_payment_failed`: the payment of a subscription is tried again;
 * - `charge.dispute.created`: an inquiry can become a dispute under the same id;
 * - `product.*`, `price.*`, `plan.*`, `coupon.*`, `account.*`: ids chosen by the user can be used again.
 */
const facts = [
  // A session leaves `open` once, to `complete` or to `expired`, and stays there.
  "checkout.session.completed",
  "checkout.session.expired",
  // Follows `completed`, when the one delayed payment of the session has arrived.
  "checkout.session.async_payment_succeeded",
  // Ids made by Stripe are never given out again, and what was deleted stays deleted.
  "customer.created",
  "customer.deleted",
  // `canceled` is final: who comes back gets a new subscription.
  "customer.subscription.created",
  "customer.subscription.deleted",
  // Draft to open, draft to deleted, open to void: an invoice has no way back from any of them.
  "invoice.created",
  "invoice.deleted",
  "invoice.finalized",
  "invoice.voided",
  // `succeeded` and `canceled` are the two final states of a PaymentIntent.
  "payment_intent.created",
  "payment_intent.succeeded",
  "payment_intent.canceled",
  // Objects that stand for one movement of money or one document.
  "refund.created",
  "payout.created",
  "transfer.created",
  "credit_note.created",
  "credit_note.voided",
] as const;

/** A thin event of the same fact has the type with `v1.` in front. */
export const oncePerObject: ReadonlySet<string> = new Set(facts.flatMap((type) => [type, `v1.${type}`]));
