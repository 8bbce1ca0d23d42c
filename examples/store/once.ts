import { createOnce } from "onceward";
import { stripe } from "onceward/stripe";

/** Without DATABASE_URL: an embedded Postgres in ./.onceward/db. */
export const once = createOnce({ database: process.env["DATABASE_URL"] });

/** Several secrets, separated by commas, while one is being rolled. */
export const billing = once.source(stripe({ secrets: (process.env["STRIPE_WEBHOOK_SECRET"] ?? "").split(",") }));
