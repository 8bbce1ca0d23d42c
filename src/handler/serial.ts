import { OncewardError } from "../errors.ts";
import type { Registered } from "./registry.ts";

/** What the ledger takes as the name of a serial group, in bytes. */
const maxBytes = 512;

/** The group that an event belongs to for this handler; undefined: none. Throws what is wrong with `serialBy`. */
export function serialOf(handler: Registered<never>, event: unknown): string | undefined {
  const { serialBy } = handler.options;
  if (serialBy === undefined) return undefined;
  const serial: unknown = serialBy(event);
  if (serial === undefined || serial === null) return undefined;
  if (
    typeof serial === "string" &&
    serial !== "" &&
    Buffer.byteLength(serial) <= maxBytes &&
    isStorable(serial)
  ) {
    return serial;
  }
  throw new OncewardError(
    "value_invalid",
    `serialBy of the handler ${handler.name} returns text of 1 to ${maxBytes} bytes, or undefined.`,
  );
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}
