import { errorTable, Fatal, OncewardError, type ErrorCode } from "../errors.ts";
import { NotDone } from "./outcome.ts";
import { notPlain, plainCopy } from "./plain.ts";

/**
 * What steps and actions return, as text. Plain JSON stays plain JSON, so that any language reads it. What
 * JSON cannot say is kept as an object with the key `$onceward`, which names its type.
 */
const tag = "$onceward";
type Tagged = { readonly [tag]: string; readonly value?: unknown };

/** As for payloads: what is larger belongs in storage, and its address here. */
const maxBytes = 16 * 1024 * 1024;

/** A value as text, undefined for undefined; and as it comes back from there, which nobody else holds. */
export interface Kept {
  readonly text: string | undefined;
  readonly value: unknown;
}

/** Throws `value_invalid` for what could not be read back. */
export function keep(value: unknown): Kept {
  // Most values are plain JSON: a copy costs a fifth of taking them apart and putting them together again.
  const copy = value === undefined ? undefined : plainCopy(value);
  const text = textOf(value, copy !== notPlain);
  return { text, value: copy === notPlain ? decodeValue(text) : copy };
}

/** The text alone. */
export function encodeValue(value: unknown): string | undefined {
  return textOf(value, value === undefined || plainCopy(value) !== notPlain);
}

function textOf(value: unknown, plain: boolean): string | undefined {
  const text = JSON.stringify(plain ? value : toTree(value)) as string | undefined;
  if (text === undefined) return undefined;
  // A UTF-16 unit takes at most three bytes.
  const bytes = text.length * 3 <= maxBytes ? 0 : Buffer.byteLength(text);
  if (bytes > maxBytes) {
    throw new OncewardError(
      "payload_too_large",
      `A kept value may have ${maxBytes} bytes as JSON; this one has ${bytes}. Store it elsewhere and return where.`,
    );
  }
  return text;
}

export function decodeValue(text: string | null | undefined): unknown {
  if (text === null || text === undefined) return undefined;
  const tree: unknown = JSON.parse(text);
  return text.includes(tag) ? fromTree(tree) : tree;
}

/** The value as plain JSON data, tagged where JSON has no word for it. */
export function toTree(value: unknown): unknown {
  try {
    return treeOf(value, new Set());
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalid("it is nested too deeply", error);
  }
}

function treeOf(value: unknown, within: Set<object>): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "undefined":
      return { [tag]: "undefined" };
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { [tag]: "number", value: Object.is(value, -0) ? "-0" : String(value) };
    case "bigint":
      return { [tag]: "bigint", value: String(value) };
    case "object":
      break;
    default:
      throw invalid(`it holds a ${typeof value}`);
  }
  if (value === null) return null;
  if (within.has(value)) throw invalid("it holds itself");
  within.add(value);
  const tree = objectTree(value, (part) => treeOf(part, within));
  within.delete(value);
  return tree;
}

function objectTree(value: object, part: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return Array.from(value, part);
  if (value instanceof Date) {
    return { [tag]: "Date", value: Number.isNaN(value.getTime()) ? null : value.toISOString() };
  }
  if (value instanceof Error) return { [tag]: "Error", value: errorTree(value, part) };
  if (value instanceof Map) return { [tag]: "Map", value: Array.from(value, ([k, v]) => [part(k), part(v)]) };
  if (value instanceof Set) return { [tag]: "Set", value: Array.from(value, part) };
  if (value instanceof ArrayBuffer)
    return { [tag]: "ArrayBuffer", value: Buffer.from(value).toString("base64") };
  if (ArrayBuffer.isView(value)) {
    const name = Buffer.isBuffer(value) ? "Buffer" : value[Symbol.toStringTag as never];
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return { [tag]: name, value: bytes.toString("base64") };
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return part(value.toJSON(""));
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  if (entries.length === 0 && !isPlain(value)) {
    throw invalid(
      `it holds a ${value.constructor?.name || "thing"} without properties of its own, of which nothing would be left`,
    );
  }
  const plain = Object.fromEntries(entries.map(([name, one]) => [name, part(one)]));
  return tag in plain ? { [tag]: "object", value: plain } : plain;
}

function errorTree(error: Error, part: (value: unknown) => unknown): unknown {
  const { name, message, cause } = error;
  const code = "code" in error && ["string", "number"].includes(typeof error.code) ? error.code : undefined;
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    ...(error instanceof Fatal && error.name !== "Fatal" && { fatal: true }),
    ...(cause instanceof Error && { cause: part(cause) }),
  };
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function fromTree(tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null) return tree;
  if (Array.isArray(tree)) return tree.map(fromTree);
  if (Object.hasOwn(tree, tag)) return fromTagged(tree as Tagged);
  return plainFrom(tree);
}

function plainFrom(tree: object): object {
  return Object.fromEntries(Object.entries(tree).map(([name, part]) => [name, fromTree(part)]));
}

function fromTagged(tagged: Tagged): unknown {
  const { [tag]: type, value } = tagged;
  switch (type) {
    case "undefined":
      return undefined;
    case "number":
      return Number(value);
    case "bigint":
      return BigInt(value as string);
    case "Date":
      return new Date((value as string | null) ?? Number.NaN);
    case "Error":
      return errorFrom(value as KeptError);
    case "Map":
      return new Map((value as [unknown, unknown][]).map(([k, v]) => [fromTree(k), fromTree(v)]));
    case "Set":
      return new Set((value as unknown[]).map(fromTree));
    case "object":
      return plainFrom(value as object);
  }
  const bytes = Buffer.from(String(value), "base64");
  if (type === "Buffer") return bytes;
  const buffer = new Uint8Array(bytes).buffer;
  if (type === "ArrayBuffer") return buffer;
  const View = views.get(type);
  if (!View) throw invalid("it was written by a newer version, or by hand");
  return new View(buffer);
}

interface KeptError {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  /** Of a class of its own that extends Fatal. */
  readonly fatal?: boolean;
  readonly cause?: unknown;
}

function errorFrom(kept: KeptError): Error {
  const { name, message, code, fatal } = kept;
  const options = kept.cause === undefined ? undefined : { cause: fromTree(kept.cause) };
  const Known = fatal ? Fatal : errors[name as keyof typeof errors];
  const error = Known
    ? new Known(message, options)
    : name === "OncewardError" && typeof code === "string" && Object.hasOwn(errorTable, code)
      ? new OncewardError(code as ErrorCode, message, options)
      : new Error(message, options);
  if (error.name !== name)
    Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  if (code !== undefined && !("code" in error)) Object.assign(error, { code });
  return error;
}

/** Errors that are themselves again: `instanceof` holds for them after a crash as before it. */
const errors = {
  Fatal,
  NotDone,
  Error,
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  URIError,
  EvalError,
};

const views = new Map<string, new (buffer: ArrayBuffer) => ArrayBufferView>(
  [
    Int8Array,
    Uint8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
    DataView,
  ].map((View) => [View.name, View]),
);

function invalid(why: string, cause?: unknown): OncewardError {
  return new OncewardError(
    "value_invalid",
    `This value cannot be kept: ${why}. Keep JSON, undefined, Date, bigint, bytes, Map, Set and Error; ` +
      "return plain data instead of what it was read from.",
    { cause },
  );
}
