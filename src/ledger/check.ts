import { isUtf8 } from "node:buffer";
import { OncewardError } from "../errors.ts";
import type { NewTask } from "./task.ts";

/** Bounds of an identity, in bytes of UTF-8. Both together stay below a third of an index page. */
const maxScopeBytes = 255;
const maxKeyBytes = 1024;
/** Far above any webhook (Stripe: below 300 KB); a larger input belongs in storage, and its address here. */
const maxBodyBytes = 16 * 1024 * 1024;

/**
 * Refuses what Postgres could not keep exactly, before it is put into a batch with others. A lone
 * surrogate would silently become U+FFFD on its way, so that two different keys were one.
 */
export function checkIdentity(scope: string, key: string): void {
  if (!isText(scope, maxScopeBytes)) {
    throw new OncewardError(
      "scope_invalid",
      `A scope is text of 1 to ${maxScopeBytes} bytes, without NUL and lone surrogates; ${describe(scope)}.`,
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
  const { body, serial } = task;
  if (body !== undefined) {
    const size = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
    if (size > maxBodyBytes) {
      throw new OncewardError(
        "payload_too_large",
        `A payload may have ${maxBodyBytes} bytes; this one has ${size}. Store it elsewhere and record where.`,
      );
    }
    if (typeof body === "string" && !body.isWellFormed()) {
      throw new OncewardError(
        "payload_invalid",
        "The payload holds a lone surrogate, which UTF-8 cannot express. Pass bytes, or call toWellFormed().",
      );
    }
  }
  if (serial !== undefined && !isText(serial, 512)) {
    throw new OncewardError("value_invalid", `A serial group is text of 1 to 512 bytes; ${describe(serial)}.`);
  }
  checkInteger("priority", task.priority, -9999, 9999);
  checkInteger("slots", task.slots, 1, 9999);
  checkInteger("maxTries", task.maxTries, 1, 9999);
  if (task.delayMs !== undefined && !(task.delayMs >= 0 && task.delayMs < 1e13)) {
    throw new OncewardError("value_invalid", "delayMs is a number of milliseconds, not below 0.");
  }
  if (task.dueAt !== undefined && Number.isNaN(task.dueAt.getTime())) {
    throw new OncewardError("value_invalid", "dueAt is a valid Date.");
  }
}

/** Bytes that Postgres can keep as text: valid UTF-8 without NUL. */
export function isStorableText(body: Uint8Array): boolean {
  return isUtf8(body) && !body.includes(0);
}

function checkInteger(name: string, value: number | undefined, least: number, most: number): void {
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
