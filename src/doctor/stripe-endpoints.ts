import { messageOf } from "../errors.ts";
import { judgeEndpoints, type Endpoint, type HandledTypes } from "./endpoints.ts";
import { type Finding, Findings } from "./finding.ts";

export interface StripeAccess {
  readonly apiKey: string;
  /** Where Stripe's API is; for tests and mocks. */
  readonly apiBase?: string | undefined;
}

/** From the environment: STRIPE_API_KEY or STRIPE_SECRET_KEY, and STRIPE_API_BASE. */
export function stripeAccess(env: Readonly<Record<string, string | undefined>>): StripeAccess | undefined {
  const apiKey = env["STRIPE_API_KEY"] ?? env["STRIPE_SECRET_KEY"];
  return apiKey ? { apiKey, apiBase: env["STRIPE_API_BASE"] } : undefined;
}

/** Asks Stripe which types it sends. A key that may not ask is no failure: then nobody knows. */
export async function examineEndpoints(access: StripeAccess, handled: HandledTypes): Promise<Finding[]> {
  try {
    return judgeEndpoints(await listEndpoints(access), handled);
  } catch (error) {
    const about = new Findings("endpoints");
    const type = (error as { type?: unknown }).type;
    about.advice(
      "endpoints_unknown",
      `Stripe could not be asked for its webhook endpoints (${typeof type === "string" ? type : messageOf(error).slice(0, 80)}).`,
      "Give a key that may read webhook endpoints in STRIPE_API_KEY, and install the package stripe.",
    );
    return about.all;
  }
}

async function listEndpoints({ apiKey, apiBase }: StripeAccess): Promise<Endpoint[]> {
  const { default: Stripe } = await import("stripe");
  const base = apiBase === undefined ? undefined : new URL(apiBase);
  const client = new Stripe(apiKey, {
    maxNetworkRetries: 1,
    timeout: 10_000,
    ...(base && {
      host: base.hostname,
      port: base.port,
      protocol: base.protocol === "http:" ? "http" : "https",
    }),
  });
  const endpoints: Endpoint[] = [];
  for await (const endpoint of client.webhookEndpoints.list({ limit: 100 })) endpoints.push(endpoint);
  return endpoints;
}
