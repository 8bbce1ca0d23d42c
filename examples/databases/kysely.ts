import { createServer } from "node:http";
import { Kysely, PostgresDialect } from "kysely";
import { createOnce } from "onceward";
import { kyselyDatabase } from "onceward/kysely";
import { nodeHandler } from "onceward/node";
import { stripe } from "onceward/stripe";
import pg from "pg";

interface Tables {
  orders: { session: string };
}

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
export const once = createOnce({ database: kyselyDatabase(db, { client: pool }) });

const billing = once.source(stripe({ secrets: [process.env["STRIPE_WEBHOOK_SECRET"] ?? ""] }));

billing.on("checkout.session.completed", async ({ event, tx }) => {
  // A transaction of Kysely's own, which the completion of the event is part of.
  await tx.insertInto("orders").values({ session: event.data.object.id }).execute();
});

await once.start();
export const server = createServer(nodeHandler(billing)).listen(
  Number(process.env["PORT"] ?? 3000),
  "127.0.0.1",
);
