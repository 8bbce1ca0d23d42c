import { OncewardError } from "../errors.ts";
import { optionalWord, unreadable } from "./json.ts";
import type { SignedRequest } from "./source.ts";

/**
 * Real signature headers are under 300 characters. The limit bounds what an unverified stranger can
 * make us split and compare, whatever the HTTP server lets through.
 */
const MAX_HEADER_CHARACTERS = 4096;

/** Senders sign once per active secret: two while rolling. More than this is not a sender. */
export const MAX_SIGNATURES = 16;

/** A header without which nothing can be verified. */
export function signatureHeader(source: string, request: SignedRequest, name: string): string {
  const value: unknown = request.header(name);
  if (typeof value !== "string" || value === "") {
    throw new OncewardError(
      "signature_missing",
      `${source}: the request has no ${name} header. Either it is not from the sender, or a proxy removed it`,
    );
  }
  if (value.length > MAX_HEADER_CHARACTERS)
    throw malformed(source, name, `is longer than ${MAX_HEADER_CHARACTERS} characters`);
  return value;
}

export function malformed(source: string, name: string, problem: string): OncewardError {
  return new OncewardError("signature_malformed", `${source}: the ${name} header ${problem}`);
}

/** Says the causes that people really meet, without a word of the request or the secret. */
export function mismatch(source: string, request: SignedRequest, secretHint: string): OncewardError {
  const empty = request.body.length === 0 ? "The body is empty: something read it before. " : "";
  return new OncewardError(
    "signature_mismatch",
    `${source}: the signature does not match. ${empty}Usual causes: ${secretHint}; ` +
      `or the body is not byte for byte what was sent (parsed before it reached us: mount before any body parser)`,
  );
}

/** A header that says what the body does not: an id, a type. Only its presence is checked: it is not signed. */
export function identityHeader(source: string, request: SignedRequest, name: string): string {
  const value = optionalWord(source, `${name} header`, request.header(name));
  if (value === undefined) throw unreadable(source, `the request has no ${name} header`);
  return value;
}
