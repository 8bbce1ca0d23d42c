import { createServer } from "node:http";
import { drizzle } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";
import { createOnce } from "onceward";
import { drizzleDatabase } from "onceward/drizzle";
import { nodeHandler } from "onceward/node";
import { stripe } from "onceward/stripe";
import pg from "pg";

const orders = pgTable("orders", { session: text().primaryKey() });

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
export const once = createOnce({ database: drizzleDatabase(drizzle({ client: pool })) });

const billing = once.source(stripe({ secrets: [process.env["STRIPE_WEBHOOK_SECRET"] ?? ""] }));

billing.on("checkout.session.completed", async ({ event, tx }) => {
  // A transaction of Drizzle's own, which the completion of the event is part of.
  await tx.insert(orders).values({ session: event.data.object.id });
});

await once.start();
export const server = createServer(nodeHandler(billing)).listen(
  Number(process.env["PORT"] ?? 3000),
  "127.0.0.1",
);
