import { createServer } from "node:http";
import { PrismaPg } from "@prisma/adapter-pg";
import { createOnce } from "onceward";
import { prismaDatabase } from "onceward/prisma";
import { nodeHandler } from "onceward/node";
import { stripe } from "onceward/stripe";
// Made by: npx prisma generate --schema examples/databases/prisma/schema.prisma
import { PrismaClient } from "./generated/client.ts";

const adapter = new PrismaPg({
  connectionString: process.env["DATABASE_URL"],
  connectionTimeoutMillis: 5_000,
});
export const once = createOnce({ database: prismaDatabase(new PrismaClient({ adapter })) });

const billing = once.source(stripe({ secrets: [process.env["STRIPE_WEBHOOK_SECRET"] ?? ""] }));

billing.on("checkout.session.completed", async ({ event, tx }) => {
  // A transaction of Prisma's own, which the completion of the event is part of.
  await tx.order.create({ data: { session: event.data.object.id } });
});

await once.start();
export const server = createServer(nodeHandler(billing)).listen(
  Number(process.env["PORT"] ?? 3000),
  "127.0.0.1",
);
