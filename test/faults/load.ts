/** Senders of webhooks that do as real ones: they deliver each event until it is taken, and some again after that. */
import { createHmac } from "node:crypto";
import { Agent, request } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { Random } from "./random.ts";

export interface LoadOptions {
  /** Ports of the servers; each delivery goes to any of them. */
  readonly ports: readonly number[];
  /** How many events are delivered at the same time. */
  readonly senders: number;
  /** Pause of a sender between two events. */
  readonly paceMs: number;
  readonly random: Random;
}

/** One in so many events is delivered once more after it was acknowledged. */
const repeatedOneIn = 5;
/** A delivery without an answer is given up after so long, and sent again. */
const answerWithinMs = 15_000;
/** For hangs alone: after so long without being taken something is broken for good. */
const takenWithinMs = 120_000;

const types = ["invoice.paid", "charge.succeeded"];

export class Load {
  /** Ids of the events that were answered with a 2xx. */
  readonly acknowledged = new Set<string>();
  /** Ids that nobody took in all that time. */
  readonly refused = new Set<string>();
  /** How often each status was answered; 0 where no answer came. */
  readonly answers = new Map<number, number>();
  readonly #options: LoadOptions;
  readonly #agent: Agent;
  readonly #watchers = new Set<() => void>();
  #senders: Promise<void>[] = [];
  #next = 0;
  #stopped = false;
  #failed = 0;
  /** When the event was first sent that was acknowledged last, of all the latest. */
  #newestSentAt = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, maxSockets: options.senders });
  }

  start(): void {
    this.#senders = Array.from({ length: this.#options.senders }, () => this.#send());
  }

  /** No new events; resolves when those under way have been taken. */
  async finish(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#senders);
  }

  close(): void {
    this.#stopped = true;
    this.#agent.destroy();
  }

  /** Resolves when so many more have been acknowledged. */
  more(count: number): Promise<void> {
    const wanted = this.acknowledged.size + count;
    return this.#until(() => this.acknowledged.size >= wanted);
  }

  /** Resolves when so many more deliveries have not been taken: refused, or without an answer. */
  notTaken(count: number): Promise<void> {
    const wanted = this.#failed + count;
    return this.#until(() => this.#failed >= wanted);
  }

  /** Resolves when an event has been acknowledged that was first sent after this moment. */
  takenSince(moment: number): Promise<void> {
    return this.#until(() => this.#newestSentAt > moment);
  }

  #until(condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#watchers.delete(look);
        reject(new Error(`no progress within ${takenWithinMs} ms: ${JSON.stringify([...this.answers])}`));
      }, takenWithinMs).unref();
      const look = (): void => {
        if (!condition()) return;
        clearTimeout(timer);
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
  }

  async #send(): Promise<void> {
    const { paceMs, random } = this.#options;
    while (!this.#stopped) {
      const n = this.#next++;
      const id = `evt_${n}`;
      const body = JSON.stringify({
        id,
        object: "event",
        type: types[n % types.length],
        created: 1_750_000_000,
        livemode: true,
        data: { object: { id: `obj_${n}`, note: "x".repeat(500) } },
      });
      const sentAt = performance.now();
      if (await this.#deliver(body)) {
        this.acknowledged.add(id);
        this.#newestSentAt = Math.max(this.#newestSentAt, sentAt);
        if (random.between(1, repeatedOneIn) === 1) await this.#post(body);
      } else if (!this.#stopped) {
        this.refused.add(id);
      }
      this.#tell();
      if (paceMs > 0) await wait(paceMs);
    }
  }

  async #deliver(body: string): Promise<boolean> {
    const until = performance.now() + takenWithinMs;
    for (let pause = 20; performance.now() < until; pause = Math.min(pause * 2, 200)) {
      const status = await this.#post(body);
      this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
      if (status >= 200 && status < 300) return true;
      this.#failed++;
      this.#tell();
      await wait(pause);
    }
    return false;
  }

  #tell(): void {
    for (const look of this.#watchers) look();
  }

  /** The status, or 0 where no answer came. */
  #post(body: string): Promise<number> {
    const { ports, random } = this.#options;
    return new Promise((resolve) => {
      const headers = {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "stripe-signature": signature(body),
      };
      const post = request(
        {
          host: "127.0.0.1",
          port: random.pick(ports),
          path: "/webhooks/stripe",
          method: "POST",
          agent: this.#agent,
          headers,
          timeout: answerWithinMs,
        },
        (answer) => {
          answer.on("error", () => resolve(0)).on("end", () => resolve(answer.statusCode ?? 0));
          // Closed before its end: nothing else tells.
          answer.on("close", () => resolve(0)).resume();
        },
      );
      post.on("timeout", () => post.destroy()).on("error", () => resolve(0));
      post.end(body);
    });
  }
}

function signature(body: string): string {
  const seconds = Math.floor(Date.now() / 1_000);
  const hmac = createHmac("sha256", "whsec_of_the_faults").update(`${seconds}.${body}`).digest("hex");
  return `t=${seconds},v1=${hmac}`;
}
