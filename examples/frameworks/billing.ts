import { createOnce } from "onceward";
import { stripe } from "onceward/stripe";

/** What all frameworks here mount. Without DATABASE_URL: an embedded Postgres in ./.onceward/db. */
export const once = createOnce({ database: process.env["DATABASE_URL"] });

export const billing = once.source(stripe({ secrets: [process.env["STRIPE_WEBHOOK_SECRET"] ?? ""] }));

billing.on("checkout.session.completed", async ({ event, tx }) => {
  await tx.query("insert into orders (session) values ($1)", [event.data.object.id]);
});
