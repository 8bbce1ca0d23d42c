/**
 * A TCP proxy before Postgres that can cut connections just before or just after a commit, let them hang without
 * a word, and send newcomers to another server.
 */
import { createServer, type AddressInfo, connect, type Server, type Socket } from "node:net";
import type { Random } from "./random.ts";
import { idleOf, Messages, statementOf } from "./wire.ts";

/** Before: Postgres never hears of the commit. After: it has committed, and nobody is told. */
export type CutAt = "before" | "after";

interface Cuts {
  readonly at: CutAt;
  left: number;
  readonly done: () => void;
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  hung: boolean;
}

/** One in so many commits is cut while cuts are wanted. */
const cutOneIn = 4;

export class Proxy {
  /** Where new connections go. */
  upstreamPort: number;
  readonly #server: Server;
  readonly #random: Random;
  readonly #pairs = new Set<Pair>();
  #cuts: Cuts | undefined;

  private constructor(upstreamPort: number, random: Random) {
    this.upstreamPort = upstreamPort;
    this.#random = random;
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(upstreamPort: number, random: Random): Promise<Proxy> {
    const proxy = new Proxy(upstreamPort, random);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  /** The same database, through this proxy. */
  through(url: string): string {
    const made = new URL(url);
    made.port = String((this.#server.address() as AddressInfo).port);
    return made.href;
  }

  /** Cuts so many connections, each at a commit; resolves when that has happened. */
  cut(at: CutAt, times: number): Promise<void> {
    return new Promise((done) => (this.#cuts = { at, left: times, done }));
  }

  /** From now on nothing passes over the connections that there are, and nobody is told. New ones work. */
  hang(): number {
    for (const pair of this.#pairs) pair.hung = true;
    return this.#pairs.size;
  }

  cutAll(): void {
    for (const pair of this.#pairs) end(pair);
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #accept(client: Socket): void {
    const upstream = connect(this.upstreamPort, "127.0.0.1");
    const pair: Pair = { client, upstream, hung: false };
    this.#pairs.add(pair);
    const fromClient = new Messages("client");
    const fromServer = new Messages("server");
    let idle = true;
    /** A commit is under way whose answer must not arrive. */
    let cutAtAnswer: Cuts | undefined;
    client.setNoDelay(true);
    upstream.setNoDelay(true);

    client.on("data", (chunk: Buffer) => {
      if (pair.hung) return;
      const commits = fromClient.read(chunk).some((message) => isCommit(statementOf(message), idle));
      const cuts = commits && !cutAtAnswer ? this.#takeCut() : undefined;
      if (cuts?.at === "before") return this.#cutNow(pair, cuts);
      cutAtAnswer ??= cuts;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk: Buffer) => {
      if (pair.hung) return;
      for (const message of fromServer.read(chunk)) {
        const nowIdle = idleOf(message);
        if (nowIdle === undefined) continue;
        idle = nowIdle;
        if (cutAtAnswer) return this.#cutNow(pair, cutAtAnswer);
      }
      client.write(chunk);
    });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.on("error", () => {});
      socket.on("close", () => {
        // A hung connection tells the other side nothing, not even its end.
        if (pair.hung && socket === upstream) return;
        this.#pairs.delete(pair);
        other.destroy();
      });
    }
  }

  #takeCut(): Cuts | undefined {
    return this.#cuts && this.#random.between(1, cutOneIn) === 1 ? this.#cuts : undefined;
  }

  #cutNow(pair: Pair, cuts: Cuts): void {
    end(pair);
    cuts.left--;
    if (cuts.left > 0 || this.#cuts !== cuts) return;
    this.#cuts = undefined;
    cuts.done();
  }
}

/** What makes something lasting: COMMIT, alone or after a last word, or a statement outside of any transaction. */
function isCommit(statement: string | undefined, idle: boolean): boolean {
  if (statement === undefined) return false;
  return idle ? !/^begin\b/i.test(statement) : /(^|; )commit$/i.test(statement);
}

/** With a reset, as when a machine on the way has forgotten the connection. */
function end({ client, upstream }: Pair): void {
  client.resetAndDestroy();
  upstream.resetAndDestroy();
}
