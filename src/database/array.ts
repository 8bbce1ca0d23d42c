/**
 * A text[] as a parameter. The literal is what every driver can send; the binary form is for `pg`,
 * which sends a Buffer as it is. Measured for 100 elements of 3 KB JSON: escaped by `pg` 4 ms, our
 * literal 2 ms, binary 0.2 ms; the whole round trip falls from 7 ms to 2 ms, since the server has
 * nothing to unescape either.
 */

/** Bytes are the UTF-8 of a text, which then needs no decoding on its way. */
type Texts = readonly (string | Uint8Array | null)[];

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
  let size = 20;
  for (const value of values) size += 4 + byteLength(value);
  const bytes = room(size);
  bytes.writeInt32BE(values.length === 0 ? 0 : 1, 0); // dimensions
  bytes.writeInt32BE(values.includes(null) ? 1 : 0, 4);
  bytes.writeInt32BE(TEXT_OID, 8);
  if (values.length === 0) return bytes.subarray(0, 12);
  bytes.writeInt32BE(values.length, 12);
  bytes.writeInt32BE(1, 16); // Postgres arrays start at 1
  let at = 20;
  for (const value of values) {
    const length = value === null ? -1 : put(bytes, value, at + 4);
    bytes.writeInt32BE(length, at);
    at += 4 + Math.max(length, 0);
  }
  return bytes;
}

function byteLength(value: string | Uint8Array | null): number {
  if (value === null) return 0;
  return typeof value === "string" ? Buffer.byteLength(value) : value.length;
}

function put(target: Buffer, value: string | Uint8Array, at: number): number {
  if (typeof value === "string") return target.write(value, at);
  target.set(value, at);
  return value.length;
}

/** In bytes. Smaller ones are cheap to make, larger ones too large to keep. */
const WORTH_KEEPING = { least: 32 * 1024, most: 1024 * 1024 };
const MOST_KEPT = 8;

/**
 * Room of parameters that were sent, to be used again. Memory outside of its heap makes V8 look for garbage in all of
 * it: receiving 3 KB events, ten times a second, for a tenth of the time.
 */
const kept: Buffer[] = [];
/** Which memory is ours alone: that of small buffers is shared with everybody's. */
const ours = new WeakSet<ArrayBufferLike>();

function room(size: number): Buffer {
  if (size < WORTH_KEEPING.least || size > WORTH_KEEPING.most) return Buffer.allocUnsafe(size);
  const found = kept.findIndex((one) => one.length >= size);
  if (found >= 0) return kept.splice(found, 1)[0]!.subarray(0, size);
  const made = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(size)));
  ours.add(made.buffer);
  return made.subarray(0, size);
}

/** The statement with these parameters has been answered: nobody reads them any more. */
export function giveBack(params: readonly unknown[]): void {
  for (const param of params) {
    if (Buffer.isBuffer(param) && ours.has(param.buffer) && kept.length < MOST_KEPT)
      kept.push(Buffer.from(param.buffer));
  }
}
