/**
 * What all adapters agree on. They pass on any method, and the bytes as they were sent: never parsed, never
 * decompressed (signatures are over the bytes on the wire, and a small body can inflate to gigabytes).
 * Whether a method or an encoding is welcome is for the receiver to say.
 */
import { OncewardError } from "../errors.ts";
import { answerOf } from "./answer.ts";
import type { Answer, Delivery, Receiver } from "./delivery.ts";

export const noBytes = new Uint8Array(0);

export const tooLarge: Answer = answerOf(
  new OncewardError("body_too_large", "the body is larger than this endpoint reads"),
);

export const brokenOff: Answer = answerOf(
  new OncewardError("body_unreadable", "the body ended before it was complete"),
);

export const alreadyDecompressed: Answer = answerOf(
  new OncewardError("body_encoded", "the body is compressed: send it without a Content-Encoding"),
);

/** For bytes that are gone because something parsed them first; `advice` says how to mount instead. */
export function bodyParsed(advice: string): Answer {
  return answerOf(new OncewardError("body_parsed", `the body was parsed before it reached us: ${advice}`));
}

type HeaderRecord = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A delivery from headers kept under lower-case names. */
export function deliveryOf(method: string, headers: HeaderRecord, body: Uint8Array): Delivery {
  return { method, body, header: (name) => headerOf(headers, name) };
}

function headerOf(headers: HeaderRecord, name: string): string | undefined {
  // Such records have Object.prototype behind them: "constructor" finds a function there, so look at the type.
  const value: unknown = headers[name.toLowerCase()];
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.join(", ") : undefined;
}

/** Whether the bytes are something else than what was signed, by their `content-encoding`. */
export function isEncoded(contentEncoding: string | undefined): boolean {
  const encoding = contentEncoding?.trim().toLowerCase();
  return encoding !== undefined && encoding !== "" && encoding !== "identity";
}

/** The receiver's answer, whatever it throws; one that HTTP cannot carry becomes a 500, alike everywhere. */
export async function answerTo(receiver: Receiver, delivery: Delivery): Promise<Answer> {
  try {
    const answer = await receiver.receive(delivery);
    return isSendable(answer) ? answer : answerOf(undefined);
  } catch (error) {
    return answerOf(error);
  }
}

function isSendable({ status, headers, body }: Answer): boolean {
  if (!Number.isInteger(status) || status < 200 || status > 599 || typeof body !== "string") return false;
  for (const name in headers) {
    if (!headerName.test(name) || !headerValue.test(headers[name]!)) return false;
  }
  return true;
}

// RFC 9110, 5.1 and 5.5: a line break in either would start a header, or an answer, of its own. ASCII alone,
// since servers disagree on how to write the rest.
const headerName = /^[\w!#$%&'*+.^`|~-]+$/;
const headerValue = /^[\t\x20-\x7e]*$/;
