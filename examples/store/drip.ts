import type { Moving, Transaction } from "onceward";
import { mail } from "./mail.ts";
import { billing, once } from "./once.ts";
import { emailOf } from "./tables.ts";

/** Sends a letter with the move: the mail is enqueued in its transaction, so that neither is without the other. */
const letter =
  (subject: string) =>
  async ({ subject: customer, tx, enqueue }: Moving<undefined, Transaction>): Promise<void> => {
    const to = await emailOf(tx, customer);
    // One after another for each customer: a letter that cannot be sent yet is not overtaken by the next.
    if (to)
      await enqueue(mail, { to, subject, text: `${subject}\n\nYours, the store` }, { serial: customer });
  };

/** The welcome drip of a new customer: each letter once, in order. */
const drip = once.machine("drip", {
  initial: "new",
  states: {
    new: {},
    welcomed: { after: { "2 days": "convince" } },
    convinced: { after: { "3 days": "encourage" } },
    finished: {},
  },
  moves: {
    welcome: { from: ["new"], to: "welcomed", run: letter("Welcome!") },
    convince: { from: ["welcomed"], to: "convinced", run: letter("What others made with it") },
    encourage: { from: ["convinced"], to: "finished", run: letter("Your first dollar") },
  },
});

billing.on("customer.created", async ({ event, tx, scope, key }) => {
  const { id, email } = event.data.object;
  await tx.query(
    "insert into store.customers (customer, email) values ($1, $2) on conflict (customer) do update set email = excluded.email",
    [id, email],
  );
  await drip.move(id, "welcome", { tx, cause: { scope, key } });
});
