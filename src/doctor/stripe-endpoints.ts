import { messageOf, OncewardError } from "../errors.ts";
import { StripeApi } from "../recover/backfill/stripe-api.ts";
import { judgeEndpoints, type HandledTypes } from "./endpoints.ts";
import { type Finding, Findings } from "./finding.ts";

export interface StripeAccess {
  readonly apiKey: string;
  /** Where Stripe's API is; for tests and mocks. */
  readonly apiBase?: string | undefined;
}

/** Somebody waits for the answer: one more try, and then it is not known. */
const patience = { timeoutMs: 10_000, pausesMs: [1_000] };

/** From the environment: STRIPE_API_KEY or STRIPE_SECRET_KEY, and STRIPE_API_BASE. */
export function stripeAccess(env: Readonly<Record<string, string | undefined>>): StripeAccess | undefined {
  const apiKey = env["STRIPE_API_KEY"] ?? env["STRIPE_SECRET_KEY"];
  return apiKey ? { apiKey, apiBase: env["STRIPE_API_BASE"] } : undefined;
}

/** Asks Stripe which types it sends. A key that may not ask is no failure: then nobody knows. */
export async function examineEndpoints(access: StripeAccess, handled: HandledTypes): Promise<Finding[]> {
  let why = "this key may not see them";
  try {
    const api = await StripeApi.open({ apiKey: access.apiKey, base: access.apiBase, ...patience });
    const endpoints = await api.endpoints();
    if (endpoints) return judgeEndpoints(endpoints, handled);
  } catch (error) {
    why = error instanceof OncewardError ? error.code : messageOf(error).slice(0, 80);
  }
  const about = new Findings("endpoints");
  about.advice(
    "endpoints_unknown",
    `Stripe could not be asked for its webhook endpoints (${why}).`,
    "Give a key that may read webhook endpoints in STRIPE_API_KEY, and install the package stripe.",
  );
  return about.all;
}
