import { NotDone } from "./outcome.ts";
import type { StepTools } from "./step.ts";

/**
 * How long providers remember a key, for `StepOptions.keyLasts`. Stripe: at least 24 hours, after which the
 * same key would charge a second time.
 */
export const keysLast = { stripe: "24 hours" } as const;

/**
 * What makes a call of the Stripe SDK carry the step's key. Where one step makes several calls, name each:
 * one key stands for one request.
 *
 * @example
 * await step("charge", { keyLasts: keysLast.stripe }, (tools) =>
 *   stripe.paymentIntents.create({ amount, currency, customer }, idempotencyKey(tools)),
 * );
 */
export function idempotencyKey(tools: Pick<StepTools, "key">, part?: string): { idempotencyKey: string } {
  return { idempotencyKey: part === undefined ? tools.key : `${tools.key}:${part}` };
}

/** Errors of a connection that was never made. */
const neverConnected = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * `fetch` that carries the step's key as `Idempotency-Key` and ends with the attempt. An answer that asks to
 * come again (408, 409, 425, 429, 5xx) is thrown, so that the step runs again; any other is returned.
 * What surely did nothing (never connected, 429) is thrown as `NotDone`.
 */
export async function fetchOnce(
  tools: Pick<StepTools, "key" | "signal">,
  url: string | URL,
  init: RequestInit = {},
): Promise<Response> {
  const headers = new Headers(init.headers);
  if (!headers.has("idempotency-key")) headers.set("idempotency-key", tools.key);
  const signal = init.signal ? AbortSignal.any([init.signal, tools.signal]) : tools.signal;
  // Neither the path nor the body is repeated in what the ledger keeps as the reason: they may hold personal data.
  const host = new URL(url).host;
  let response: Response;
  try {
    response = await fetch(url, { ...init, headers, signal });
  } catch (error) {
    const code = codeOf(error);
    if (code === undefined || !neverConnected.has(code)) throw error;
    throw new NotDone(`${host} could not be reached (${code}).`, { cause: error });
  }
  const { status } = response;
  if (status !== 408 && status !== 409 && status !== 425 && status !== 429 && status < 500) return response;
  await response.body?.cancel();
  if (status === 429) throw new NotDone(`${host} answered 429: too many requests.`);
  throw new Error(`${host} answered ${status}.`);
}

function codeOf(error: unknown): string | undefined {
  for (let one = error; one instanceof Error; one = one.cause) {
    if ("code" in one && typeof one.code === "string") return one.code;
    if (one instanceof AggregateError) return codeOf(one.errors[0]);
  }
  return undefined;
}
