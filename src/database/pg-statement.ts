/**
 * A statement of ours on a client of `pg`, as the bytes that go to Postgres, in one piece. `pg` copies each parameter into
 * a new buffer that grows, and writes five messages. Memory outside of its heap makes V8 look for garbage in all of it:
 * while 3 KB events are received, 18 times in six seconds, and 3 times this way. Node takes 42 µs an event instead of 48.
 */
import { byteLength, putSized, putTextArray, textArrayBinary, textArraySize } from "./array.ts";
import type { Param } from "./database.ts";

/** What we need of a client, and of its statements. Known by its shape, and not used where it differs. */
interface Client {
  query(statement: object): unknown;
}
interface Connection {
  readonly stream: { readonly writable: boolean; write(bytes: Uint8Array): unknown };
}
interface Query {
  prepare(connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}
type QueryClass = new (config: object) => Query;
type Callback = (error: Error | null, result: unknown) => void;

/** Sends what is made with this callback. An error's stack leads to who sent it, and not to the socket, as `pg` does it. */
export function submit(client: object, make: (callback: Callback) => object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const statement = make((error, result) => {
      if (error) reject(error);
      else resolve(result);
    });
    (client as Client).query(statement);
  }).catch((error: unknown) => {
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  });
}

/** Parameters as `pg` can send them itself. */
export function sendable(params: readonly Param[]): unknown[] {
  return params.map((param) => (isTexts(param) ? textArrayBinary(param) : param));
}

/** The same, made only where `pg` itself sends it. */
function whenAsked(param: Param): unknown {
  return isTexts(param) ? { toPostgres: () => textArrayBinary(param) } : param;
}

interface Config {
  readonly text: string;
  readonly values: readonly Param[];
  readonly types: object;
  readonly callback: Callback;
}
type StatementClass = new (config: Config) => object;

const known = new WeakMap<QueryClass, StatementClass>();

/** The statement class of this client's `pg`, taught to send itself in one piece; undefined where it is not the one we know. */
export function statementClass(client: object): StatementClass | undefined {
  const { Query } = client.constructor as { Query?: QueryClass };
  const { connection } = client as { connection?: Partial<Connection> };
  const methods = [Query?.prototype.prepare, Query?.prototype.handleReadyForQuery, connection?.stream?.write];
  if (!Query || !methods.every((method) => typeof method === "function")) return undefined;
  let found = known.get(Query);
  if (!found) known.set(Query, (found = inOnePiece(Query)));
  return found;
}

function inOnePiece(Base: QueryClass): StatementClass {
  return class extends Base {
    #bytes: Buffer | undefined;

    constructor(config: Config) {
      // Who stands between us and `pg`, such as a tracer that adds a comment, may copy it into a statement of its own.
      super({ ...config, values: config.values.map(whenAsked) });
      this.#bytes = messages(config.text, config.values);
    }

    override prepare({ stream }: Connection): void {
      if (this.#bytes && stream.writable) stream.write(this.#bytes);
    }

    /** The server has read all of it: nobody needs these bytes any more. */
    override handleReadyForQuery(connection: Connection): void {
      if (this.#bytes) giveBack(this.#bytes);
      this.#bytes = undefined;
      super.handleReadyForQuery(connection);
    }
  };
}

/** After Bind: answers as text; Describe and Execute of the unnamed portal; Sync. */
const ending = Buffer.from("\0\u0001\0\0D\0\0\0\u0006P\0E\0\0\0\u0009\0\0\0\0\0S\0\0\0\u0004", "latin1");
/** Of these, what belongs to Bind. */
const BIND_END = 4;

/** Parse, Bind, Describe, Execute and Sync, without a name: behind poolers the next statement may have another server. */
function messages(text: string, params: readonly Param[]): Buffer {
  const parse = 4 + 1 + Buffer.byteLength(text) + 1 + 2;
  let bind = 4 + 1 + 1 + 2 + 2 * params.length + 2 + BIND_END;
  for (const param of params) bind += 4 + (isTexts(param) ? textArraySize(param) : byteLength(asText(param)));

  const bytes = room(1 + parse + 1 + bind + ending.length - BIND_END);
  let at = bytes.write("P", 0);
  at = bytes.writeInt32BE(parse, at);
  at += bytes.write(`\0${text}\0\0\0`, at);
  at += bytes.write("B", at);
  at = bytes.writeInt32BE(bind, at);
  at += bytes.write("\0\0", at);
  at = bytes.writeInt16BE(params.length, at);
  for (const param of params)
    at = bytes.writeInt16BE(param !== null && typeof param === "object" ? 1 : 0, at);
  at = bytes.writeInt16BE(params.length, at);
  for (const param of params) {
    if (!isTexts(param)) {
      at = putSized(bytes, asText(param), at);
      continue;
    }
    const end = putTextArray(bytes, param, at + 4);
    bytes.writeInt32BE(end - at - 4, at);
    at = end;
  }
  bytes.set(ending, at);
  return bytes;
}

function isTexts(param: Param): param is Extract<Param, readonly unknown[]> {
  return Array.isArray(param);
}

function asText(param: Exclude<Param, readonly unknown[]>): string | Uint8Array | null {
  return typeof param === "boolean" ? String(param) : param;
}

/** In bytes. Smaller ones are cheap to make, larger ones too large to keep. */
const WORTH_KEEPING = { least: 16 * 1024, most: 1024 * 1024 };
const MOST_KEPT = 8;

/** Room of statements that were answered, to be used again. */
const kept: Buffer[] = [];

function room(size: number): Buffer {
  if (size < WORTH_KEEPING.least || size > WORTH_KEEPING.most) return Buffer.allocUnsafe(size);
  const found = kept.findIndex((one) => one.length >= size);
  const whole =
    found >= 0 ? kept.splice(found, 1)[0]! : Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(size)));
  return whole.subarray(0, size);
}

/** Memory of small ones is shared with everybody's. */
function giveBack(bytes: Buffer): void {
  if (bytes.length >= WORTH_KEEPING.least && bytes.length <= WORTH_KEEPING.most && kept.length < MOST_KEPT)
    kept.push(Buffer.from(bytes.buffer));
}
