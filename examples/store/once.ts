import { createOnce } from "onceward";
import { stripe } from "onceward/stripe";

/** Without DATABASE_URL: an embedded Postgres in ./.onceward/db. */
export const once = createOnce({
  database: process.env["DATABASE_URL"],
  // What a crashed process held comes back after so long. Shorter, and every task is renewed more often.
  leaseMs: Number(process.env["LEASE_SECONDS"] ?? 60) * 1000,
});

/** Several secrets, separated by commas, while one is being rolled. */
export const billing = once.source(
  stripe({ secrets: (process.env["STRIPE_WEBHOOK_SECRET"] ?? "").split(",") }),
);
