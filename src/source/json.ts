import { isUtf8 } from "node:buffer";
import { OncewardError } from "../errors.ts";
import { skim, type Parts } from "./skim.ts";

export type JsonObject = { readonly [key: string]: unknown };

/** The longest id, type or account: indexable everywhere, and twice what any known sender uses. */
const MAX_WORD = 255;

/** Control characters (Postgres text refuses NUL, log lines break on the others) and lone surrogates (not UTF-8). */
const UNFIT = /[\p{Cc}\p{Cs}]/u;

export function unreadable(source: string, problem: string): OncewardError {
  return new OncewardError("body_unreadable", `${source}: the body is genuine, but ${problem}`);
}

/**
 * The text of a body. Strict where TextDecoder is lenient: a byte that is not UTF-8 would become
 * U+FFFD, and a BOM would vanish, so that what we read is not what was signed.
 */
export function readText(source: string, body: Uint8Array): string {
  if (!isUtf8(body)) throw unreadable(source, "is not UTF-8");
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf)
    throw unreadable(source, "begins with a byte order mark");
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8");
}

export function parseObject(source: string, text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Without a cause: V8 quotes the text in its message, and the text is a payload.
    throw unreadable(source, "is not JSON");
  }
  if (!isObject(value)) throw unreadable(source, "is not a JSON object");
  return value;
}

/**
 * The body as a JSON object, with these parts of it at least. Parsing all of a 3.4 KB event takes 10.6 µs,
 * skimming it for the parts 4.9. The two cannot disagree: the scanner checks the whole grammar as it goes,
 * gives up where it is not sure, and is compared with JSON.parse by the properties in skim.test.ts.
 */
export function readParts(source: string, body: Uint8Array, parts: Parts): JsonObject {
  return skim(body, parts) ?? readObject(source, body);
}

/** The body as a JSON object, all of it: for what handlers get, and for functions that may look anywhere. */
export function readObject(source: string, body: Uint8Array): JsonObject {
  return parseObject(source, readText(source, body));
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What stands at a path, own properties only: nothing is inherited from a polluted prototype. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  let current = value;
  for (const key of path) {
    if (!isObject(current) || !Object.hasOwn(current, key)) return undefined;
    current = current[key];
  }
  return current;
}

/** An id, type or account. Numbers are taken while they are exact: above 2^53 two ids would become one. */
export function word(source: string, what: string, value: unknown): string {
  const text = typeof value === "number" && Number.isSafeInteger(value) ? String(value) : value;
  if (typeof text !== "string" || text === "")
    throw unreadable(source, `its ${what} is missing or not a string`);
  if (text.length > MAX_WORD) throw unreadable(source, `its ${what} is longer than ${MAX_WORD} characters`);
  if (UNFIT.test(text)) throw unreadable(source, `its ${what} has characters that cannot be stored`);
  return text;
}

export function optionalWord(source: string, what: string, value: unknown): string | undefined {
  return value === undefined || value === null || value === "" ? undefined : word(source, what, value);
}

/** An object's id is a help, never a reason to refuse an event: what is unfit is left out. */
export function hintWord(value: unknown): string | undefined {
  try {
    return word("", "", value);
  } catch {
    return undefined;
  }
}

/** What a function of the user finds in the body; what it throws may quote the body and goes no further. */
export function found(source: string, what: string, find: () => unknown): unknown {
  try {
    return find();
  } catch {
    throw unreadable(source, `its ${what} cannot be found where the source looks for it`);
  }
}

/** Accounts are part of the scope, which holds 255 bytes together with the source's name: plain ASCII, at most half of it. */
export function accountWord(source: string, value: unknown): string | undefined {
  const text = optionalWord(source, "account", value);
  if (text === undefined || /^[\x21-\x7e]{1,128}$/.test(text)) return text;
  throw unreadable(source, "its account is not 1 to 128 visible ASCII characters");
}
