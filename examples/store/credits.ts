import { billing } from "./once.ts";
import { idOf } from "./tables.ts";

// Stripe sends both for one payment. Whichever comes first gives the credit.
for (const type of ["invoice.paid", "invoice.payment_succeeded"] as const) {
  billing.on(type, { name: `credit:${type}` }, async ({ event, tx, once }) => {
    const invoice = event.data.object;
    if (!invoice.id || !(await once(`credit:${invoice.id}`))) return;
    await tx.query("insert into store.credits (invoice_id, customer, amount) values ($1, $2, $3)", [
      invoice.id,
      idOf(invoice.customer),
      invoice.amount_paid,
    ]);
  });
}

// A charge can be refunded in parts, and each event tells the sum so far: what is taken back only grows.
billing.on("charge.refunded", async ({ event, tx }) => {
  const charge = event.data.object;
  await tx.query(
    `insert into store.credits as c (invoice_id, customer, amount) values ($1, $2, $3)
     on conflict (invoice_id) do update set amount = least(c.amount, excluded.amount)`,
    [`refund:${charge.id}`, idOf(charge.customer), -charge.amount_refunded],
  );
});
