/** Answers to the sender: JSON, with a stable code, and never anything of the inside. */
import { OncewardError, type ErrorCode } from "../errors.ts";
import type { Answer } from "./delivery.ts";

const json: Readonly<Record<string, string>> = Object.freeze({ "content-type": "application/json" });

/**
 * Seconds after which the sender may try again. 409: somebody is running it, and most handlers take less
 * than a second. 503: the database is away or busy, and a storm of retries would keep it so.
 */
const retryAfter: Readonly<Record<number, string>> = { 409: "1", 503: "5" };

/** An answer with a JSON body. */
export function answer(status: number, body: object, headers?: Readonly<Record<string, string>>): Answer {
  return { status, headers: headers ? { ...json, ...headers } : json, body: JSON.stringify(body) };
}

/** What the sender gets when something was thrown that we do not know: nothing that could tell more. */
const internal: Answer = Object.freeze(answer(500, { error: { code: "internal" } }));

// Messages of one code are nearly always the same, so the last answer of each code serves the next one.
// One entry a code: what a sender varies in a request cannot make this grow.
const lastOfCode = new Map<ErrorCode, { readonly message: string; readonly answer: Answer }>();

/**
 * The answer to anything that was thrown: `{"error":{"code","message"}}` with the error's status.
 *
 * The message goes out where it tells senders what to change (4xx) and for `body_parsed`, which tells who
 * mounts. Messages of other 5xx may name hosts, tables or what a handler said: the sender gets the code alone.
 */
export function answerOf(error: unknown): Answer {
  if (!(error instanceof OncewardError)) return internal;
  const last = lastOfCode.get(error.code);
  if (last?.message === error.message) return last.answer;
  const made = Object.freeze(answer(error.status, { error: describe(error) }, headersOf(error)));
  lastOfCode.set(error.code, { message: error.message, answer: made });
  return made;
}

function describe({ code, status, message }: OncewardError): { code: ErrorCode; message?: string } {
  return status < 500 || code === "body_parsed" ? { code, message } : { code };
}

function headersOf({ code, status, retry }: OncewardError): Record<string, string> | undefined {
  if (code === "method_not_allowed") return { allow: "POST" };
  const seconds = retry ? retryAfter[status] : undefined;
  return seconds ? { "retry-after": seconds } : undefined;
}
