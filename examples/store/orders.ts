import { mail } from "./mail.ts";
import { billing } from "./once.ts";
import { idOf } from "./tables.ts";

// A session can be completed before it is paid (bank debits); then `async_payment_succeeded` follows. Either
// fulfils the order, and the effect key sees to it that one of them does.
for (const type of ["checkout.session.completed", "checkout.session.async_payment_succeeded"] as const) {
  billing.on(type, async ({ event, tx, once, enqueue }) => {
    const session = event.data.object;
    if (session.payment_status !== "paid") return;
    if (!(await once(`order:${session.id}`))) return;
    const email = session.customer_details?.email;
    await tx.query(
      "insert into store.orders (session_id, customer, email, amount_total, currency) values ($1, $2, $3, $4, $5)",
      [session.id, idOf(session.customer), email, session.amount_total, session.currency],
    );
    if (email)
      await enqueue(mail, { to: email, subject: "Your download", text: `Thank you! Order ${session.id}` });
  });
}
