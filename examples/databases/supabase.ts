import { createServer } from "node:http";
import { createOnce } from "onceward";
import { nodeHandler } from "onceward/node";
import { pgDatabase } from "onceward/pg";
import { stripe } from "onceward/stripe";

// Supabase shows both addresses under "Connect". The pooler in transaction mode (port 6543) carries all statements; the
// direct connection, or the pooler in session mode (port 5432), is for LISTEN, which wakes workers at once. Without it
// they poll.
export const once = createOnce({
  database: pgDatabase(process.env["DATABASE_URL"]!, { listen: process.env["DIRECT_URL"]! }),
});

const billing = once.source(stripe({ secrets: [process.env["STRIPE_WEBHOOK_SECRET"] ?? ""] }));

billing.on("checkout.session.completed", async ({ event, tx }) => {
  // The tables are those of your Supabase project.
  await tx.query("insert into orders (session) values ($1)", [event.data.object.id]);
});

await once.start();
export const server = createServer(nodeHandler(billing)).listen(
  Number(process.env["PORT"] ?? 3000),
  "127.0.0.1",
);
