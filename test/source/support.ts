import { readFileSync } from "node:fs";
import { OncewardError, type ErrorCode } from "../../src/errors.ts";
import type { Identity, ProtocolReply, SignedRequest, Source } from "../../src/source/source.ts";

export type Headers = Readonly<Record<string, string>>;

/** A moment that all tests share, in ms. */
export const NOW = 1_750_000_000_000;
export const NOW_S = NOW / 1000;

export function requestOf(body: string | Uint8Array, headers: Headers): SignedRequest {
  return {
    body: typeof body === "string" ? Buffer.from(body, "utf8") : body,
    header: (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined),
  };
}

/** The typed refusal, or undefined where nothing was thrown. Anything else that is thrown fails the test. */
export function refusalOf(run: () => unknown): OncewardError | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (error instanceof OncewardError) return error;
    throw error;
  }
}

export function codeOf(run: () => unknown): ErrorCode | "accepted" {
  return refusalOf(run)?.code ?? "accepted";
}

export function identityOf(identified: Identity | ProtocolReply): Identity {
  if ("reply" in identified) throw new Error("a protocol reply, where an event was expected");
  return identified;
}

/** Verifies and identifies, as the receiver does. */
export function receive(source: Source, request: SignedRequest, now = NOW): Identity | ProtocolReply {
  source.verify(request, now);
  return source.identify(request);
}

/** One event of Stripe a line, 21 types, as the API renders them. */
export function stripeEvents(): string[] {
  const file = new URL("../fixtures/stripe-events.ndjson", import.meta.url);
  return readFileSync(file, "utf8").trimEnd().split("\n");
}

/** What the message of an error must never hold: any run of 16 characters of these. (Names of fields are shorter.) */
export function leaks(message: string, ...texts: readonly string[]): boolean {
  const runs = new Set<string>();
  for (let start = 0; start + 16 <= message.length; start++) runs.add(message.slice(start, start + 16));
  return texts.some((text) => {
    for (let start = 0; start + 16 <= text.length; start++)
      if (runs.has(text.slice(start, start + 16))) return true;
    return false;
  });
}
