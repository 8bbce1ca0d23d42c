/** As much of Postgres' protocol as one needs to know where a transaction ends. */

/** Cuts a stream into messages: a type (one letter; none in a client's first message), a length, a body. */
export class Messages {
  #rest: Buffer = Buffer.alloc(0);
  /** A client begins with a message without a type. */
  #untyped: boolean;

  constructor(from: "client" | "server") {
    this.#untyped = from === "client";
  }

  /** The messages that are complete with this chunk. */
  read(chunk: Buffer): Message[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const found: Message[] = [];
    for (;;) {
      const head = this.#untyped ? 0 : 1;
      if (this.#rest.length < head + 4) return found;
      const end = head + this.#rest.readUInt32BE(head);
      if (this.#rest.length < end) return found;
      const type = this.#untyped ? "" : String.fromCharCode(this.#rest[0] ?? 0);
      found.push({ type, body: this.#rest.subarray(head + 4, end) });
      this.#untyped = false;
      this.#rest = this.#rest.subarray(end);
    }
  }
}

export interface Message {
  readonly type: string;
  readonly body: Buffer;
}

/** The statement of a Query or Parse message; undefined for others. */
export function statementOf({ type, body }: Message): string | undefined {
  if (type === "Q") return textAt(body, 0);
  if (type === "P") return textAt(body, body.indexOf(0) + 1); // after the statement's name
  return undefined;
}

/** Of ReadyForQuery: true outside of a transaction; undefined for other messages. */
export function idleOf({ type, body }: Message): boolean | undefined {
  return type === "Z" ? String.fromCharCode(body[0] ?? 0) === "I" : undefined;
}

function textAt(body: Buffer, start: number): string {
  return body.toString("utf8", start, body.indexOf(0, start));
}
