/**
 * A text[] as a parameter. The literal is what every driver can send; the binary form is for `pg`,
 * which sends bytes as they are. Measured for 100 elements of 3 KB JSON: escaped by `pg` 4 ms, our
 * literal 2 ms, binary 0.2 ms; the whole round trip falls from 7 ms to 2 ms, since the server has
 * nothing to unescape either.
 */
import type { Texts } from "./database.ts";

/** Oid of `text`, the type of the elements. */
const TEXT_OID = 25;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** `{"a","b",NULL}`: every element quoted, so that empty strings, spaces and the word NULL stay text. */
export function textArrayLiteral(values: Texts): string {
  return `{${values.map((value) => (value === null ? "NULL" : quoted(value))).join(",")}}`;
}

/** Over bytes: JSON is full of quotes, and replacing them in a string takes twice as long. */
function quoted(value: string | Uint8Array): string {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  const out = Buffer.allocUnsafe(bytes.length * 2 + 2);
  let at = 0;
  out[at++] = QUOTE;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE || byte === BACKSLASH) out[at++] = BACKSLASH;
    out[at++] = byte;
  }
  out[at++] = QUOTE;
  return out.toString("utf8", 0, at);
}

/** The same in the wire's binary format: header, one dimension, then length and bytes of each element. */
export function textArrayBinary(values: Texts): Buffer {
  const bytes = Buffer.allocUnsafe(textArraySize(values));
  putTextArray(bytes, values, 0);
  return bytes;
}

export function textArraySize(values: Texts): number {
  let size = values.length === 0 ? 12 : 20;
  for (const value of values) size += 4 + byteLength(value);
  return size;
}

/** Writes the binary form; returns where it ends. */
export function putTextArray(target: Buffer, values: Texts, from: number): number {
  let at = target.writeInt32BE(values.length === 0 ? 0 : 1, from); // dimensions
  at = target.writeInt32BE(values.includes(null) ? 1 : 0, at);
  at = target.writeInt32BE(TEXT_OID, at);
  if (values.length === 0) return at;
  at = target.writeInt32BE(values.length, at);
  at = target.writeInt32BE(1, at); // Postgres arrays start at 1
  for (const value of values) at = putSized(target, value, at);
  return at;
}

/** A length, and so many bytes: how the wire has all its values. */
export function putSized(target: Buffer, value: string | Uint8Array | null, at: number): number {
  const length = value === null ? -1 : put(target, value, at + 4);
  target.writeInt32BE(length, at);
  return at + 4 + Math.max(length, 0);
}

export function byteLength(value: string | Uint8Array | null): number {
  if (value === null) return 0;
  return typeof value === "string" ? Buffer.byteLength(value) : value.length;
}

function put(target: Buffer, value: string | Uint8Array, at: number): number {
  if (typeof value === "string") return target.write(value, at);
  target.set(value, at);
  return value.length;
}
