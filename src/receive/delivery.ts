/** One HTTP request of a sender, and the answer to it, as plain shapes that every framework can be turned into. */
export interface Delivery {
  readonly method: string;
  /** A header by its lower-case name; several values joined by ", ". */
  header(name: string): string | undefined;
  /** The raw bytes, exactly as they were signed. */
  readonly body: Uint8Array;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What an adapter mounts. `maxBytes` bounds what it reads of a body before it answers 413. */
export interface Receiver {
  readonly maxBytes: number;
  receive(delivery: Delivery): Promise<Answer>;
}
