import { isUtf8 } from "node:buffer";
import { isBytes } from "../bytes.ts";
import { OncewardError } from "../errors.ts";
import type { Claim, NewTask, Retry, StepState, TaskIdentity } from "./task.ts";

/** Bounds of an identity, in bytes of UTF-8. Both together stay below a third of an index page. */
const maxScopeBytes = 255;
const maxKeyBytes = 1024;
/** Far above any webhook (Stripe: below 300 KB); a larger input belongs in storage, and its address here. */
const maxBodyBytes = 16 * 1024 * 1024;
/** A name of ours or of a sender: of a step, a type, a fingerprint. */
const maxNameBytes = 255;
const maxDetailBytes = 1024;
/** Postgres' integer, which attempts and versions are. */
const maxInteger = 2 ** 31 - 1;
/** About 300 years, in ms: more is a mistake, and a thousand times more is beyond what Postgres can add. */
const maxMs = 1e13;
/** The years 1 to 9999, in ms: what Date writes beyond them Postgres does not read. */
const [minDate, maxDate] = [-62_135_596_800_000, 253_402_300_799_999];

const stepStates: readonly StepState[] = ["started", "done", "failed", "waiting"];

/**
 * Refuses what Postgres could not keep exactly, before it is put into a batch with others. A lone
 * surrogate would silently become U+FFFD on its way, so that two different keys were one. A scope ends
 * at the space where it is kept together with its key: as the cause of another task.
 */
export function checkIdentity(scope: string, key: string): void {
  const fits = isText(scope, maxScopeBytes);
  if (!fits || scope.includes(" ")) {
    throw new OncewardError(
      "scope_invalid",
      `A scope is text of 1 to ${maxScopeBytes} bytes, without spaces, NUL and lone surrogates; ` +
        `${fits ? "this one holds a space" : describe(scope)}.`,
    );
  }
  if (!isText(key, maxKeyBytes)) {
    throw new OncewardError(
      "key_invalid",
      `A key is text of 1 to ${maxKeyBytes} bytes, without NUL and lone surrogates; ${describe(key)}. ` +
        "Use an id of the thing itself, such as an order number; hash what is longer.",
    );
  }
}

/** Refuses a task that cannot be recorded as it is. */
export function checkTask(task: NewTask): void {
  checkIdentity(task.scope, task.key);
  if (task.body !== undefined) checkBody(task.body);
  checkName("A type", task.type, maxDetailBytes);
  checkName("A fingerprint", task.fingerprint, maxDetailBytes);
  checkName("A serial group", task.serial, 512);
  checkInteger("priority", task.priority, -9999, 9999);
  checkInteger("slots", task.slots, 1, 9999);
  checkInteger("maxTries", task.maxTries, 1, 9999);
  if (task.delayMs !== undefined) checkMs("delayMs", task.delayMs);
  checkDate("dueAt", task.dueAt);
  checkDate("happenedAt", task.happenedAt);
  checkCause(task.cause);
  checkStorable("ignored", task.ignored);
}

function checkBody(body: unknown): void {
  if (typeof body !== "string" && !isBytes(body)) {
    throw new OncewardError("payload_invalid", `A payload is text or bytes; ${describe(body)}.`);
  }
  checkSize(body);
  if (typeof body === "string" && !body.isWellFormed()) {
    throw new OncewardError(
      "payload_invalid",
      "The payload holds a lone surrogate, which UTF-8 cannot express. Pass bytes, or call toWellFormed().",
    );
  }
}

function checkSize(body: string | Uint8Array): void {
  // A UTF-16 unit takes at most three bytes: most texts need no second look at their length.
  if (body.length * 3 <= maxBodyBytes) return;
  const size = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  if (size <= maxBodyBytes) return;
  throw new OncewardError(
    "payload_too_large",
    `A payload may have ${maxBodyBytes} bytes; this one has ${size}. Store it elsewhere and record where.`,
  );
}

/** A claim as every write of a run carries it, with what the run returned. */
export function checkClaim(claim: Claim & { readonly result?: string | undefined }): void {
  checkIdentity(claim.scope, claim.key);
  if (claim.attempt === undefined) throw new OncewardError("value_invalid", "A claim has an attempt.");
  checkInteger("attempt", claim.attempt, 0, maxInteger);
  checkValue("A result", claim.result);
}

export function checkFailure(failure: Claim & { reason: string; retry: Retry }): void {
  checkClaim(failure);
  const { retry } = failure;
  if (typeof retry === "object" && retry !== null) return checkMs("afterMs", retry.afterMs);
  if (["backoff", "never", "unknown"].includes(retry)) return;
  throw new OncewardError("value_invalid", 'retry is "backoff", "never", "unknown" or { afterMs }.');
}

export function checkStep(
  step: Claim & { name: string; state: StepState; value?: string | undefined },
): void {
  checkClaim(step);
  if (step.name === undefined) throw new OncewardError("value_invalid", "A step has a name.");
  checkName("A step's name", step.name);
  if (!stepStates.includes(step.state)) {
    throw new OncewardError("value_invalid", `A step is ${stepStates.join(", ")}.`);
  }
  checkValue("A step's value", step.value);
}

/** What is kept as text beside a task: a result, the value of a step or signal. */
export function checkValue(what: string, value: string | undefined): void {
  if (value === undefined) return;
  checkStorable(what, value);
  checkSize(value);
}

export function checkCause(cause: TaskIdentity | undefined): void {
  if (cause !== undefined) checkIdentity(cause.scope, cause.key);
}

export function checkName(what: string, name: string | undefined, maxBytes = maxNameBytes): void {
  if (name === undefined || isText(name, maxBytes)) return;
  const bounds = `text of 1 to ${maxBytes} bytes, without NUL and lone surrogates`;
  throw new OncewardError("value_invalid", `${what} is ${bounds}; ${describe(name)}.`);
}

/** Any text that goes to Postgres, which keeps neither a NUL nor half of a character. */
export function checkStorable(what: string, text: string | undefined): void {
  if (text === undefined || (typeof text === "string" && text.isWellFormed() && !text.includes("\0"))) return;
  throw new OncewardError(
    "value_invalid",
    `${what} is text without NUL and lone surrogates; ${describe(text)}.`,
  );
}

export function checkMs(name: string, ms: number, least = 0): void {
  if (typeof ms === "number" && ms >= least && ms < maxMs) return;
  throw new OncewardError("value_invalid", `${name} is a number of milliseconds, not below ${least}.`);
}

export function checkDate(name: string, date: Date | undefined): void {
  if (date === undefined) return;
  if (date instanceof Date && date.getTime() >= minDate && date.getTime() <= maxDate) return;
  throw new OncewardError("value_invalid", `${name} is a valid Date, of the years 1 to 9999.`);
}

/** Bytes that Postgres can keep as text: valid UTF-8 without NUL. */
export function isStorableText(body: Uint8Array): boolean {
  return isUtf8(body) && !body.includes(0);
}

export function checkInteger(name: string, value: number | undefined, least = 0, most = maxInteger): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= least && value <= most)) {
    throw new OncewardError("value_invalid", `${name} is a whole number from ${least} to ${most}.`);
  }
}

function isText(value: unknown, maxBytes: number): boolean {
  return (
    typeof value === "string" &&
    value.length > 0 &&
    // A UTF-16 unit takes at most three bytes: most strings need no second look at their length.
    (value.length * 3 <= maxBytes || Buffer.byteLength(value) <= maxBytes) &&
    value.isWellFormed() &&
    !value.includes("\0")
  );
}

/** What is wrong with it, without repeating it: keys can hold personal data. */
function describe(value: unknown): string {
  if (typeof value !== "string") return `this one is of type ${value === null ? "null" : typeof value}`;
  if (value === "") return "this one is empty";
  if (value.includes("\0")) return "this one holds a NUL";
  if (!value.isWellFormed()) return "this one holds a lone surrogate";
  return `this one has ${Buffer.byteLength(value)} bytes`;
}
