import type { ConnectedSource, JobTools, Moving, Once, Transaction } from "onceward";
import type { StripeEvents } from "onceward/stripe";
import type Stripe from "stripe";

export interface Notice {
  readonly subscription: string;
  readonly notice: string;
}

/** Sends a notice. `key` is the same however often a notice is tried: make it the Message-ID. */
export type Notify = (notice: Notice, key: string) => Promise<unknown>;

/**
 * The life of a subscription. A payment that failed brings reminders on days 1, 3 and 5, and after a week the
 * end; `invoice.paid` in between stops all that.
 *
 * Stripe delivers in any order and more than once, so each invoice is a subject of its own: one that is paid
 * stays paid, and a failure which is told afterwards is refused. What happens to an invoice moves its
 * subscription, in the same transaction.
 */
export function subscriptions(
  once: Pick<Once, "job" | "machine">,
  billing: ConnectedSource<StripeEvents, Transaction>,
  notify: Notify,
) {
  const mail = once.job("subscription-mail", async ({ input, step }: JobTools<Notice>) => {
    await step("send", async ({ key }) => void (await notify(input, key)));
  });

  const subscription = once.machine("subscription", {
    initial: "active",
    states: { active: {}, past_due: {}, canceled: {} },
    moves: {
      fall_behind: { from: ["active"], to: "past_due" },
      recover: { from: ["past_due"], to: "active" },
      cancel: {
        from: ["active", "past_due"],
        to: "canceled",
        run: ({ subject, enqueue }) => enqueue(mail, { subscription: subject, notice: "canceled" }),
      },
    },
  });

  const follow =
    (move: "fall_behind" | "recover" | "cancel") =>
    ({ subject, tx, cause }: Moving<undefined, Transaction>): Promise<unknown> =>
      subscription.move(subscriptionOf(subject), move, { tx, cause });

  // The subject is "sub_1/in_1".
  const invoice = once.machine("invoice", {
    initial: "open",
    states: {
      open: {},
      unpaid: { after: { "1 day": "remind", "3 days": "remind", "5 days": "remind", "7 days": "abandon" } },
      paid: {},
      abandoned: {},
    },
    moves: {
      // A second failure is no move from `unpaid`: the days go on counting from the first.
      fail: { from: ["open"], to: "unpaid", run: follow("fall_behind") },
      remind: {
        from: ["unpaid"],
        to: "unpaid",
        run: ({ subject, after, enqueue }) =>
          enqueue(mail, { subscription: subscriptionOf(subject), notice: `payment failed, ${after}` }),
      },
      pay: { from: ["open", "unpaid", "abandoned"], to: "paid", run: follow("recover") },
      abandon: { from: ["unpaid"], to: "abandoned", run: follow("cancel") },
    },
  });

  for (const [type, move] of [
    ["invoice.payment_failed", "fail"],
    ["invoice.paid", "pay"],
  ] as const) {
    billing.on(type, { name: `subscription-${move}` }, async ({ event, tx, scope, key }) => {
      const subject = subjectOf(event.data.object);
      if (subject) await invoice.move(subject, move, { tx, cause: { scope, key } });
    });
  }
  return { subscription, invoice };
}

const subscriptionOf = (subject: string): string => subject.split("/", 1)[0] ?? "";

function subjectOf({ id, parent }: Stripe.Invoice): string | undefined {
  const of = parent?.subscription_details?.subscription;
  return of && `${typeof of === "string" ? of : of.id}/${id}`;
}
