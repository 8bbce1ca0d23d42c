import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Stripe from "stripe";
import { vi } from "vitest";
import { stormEvent, type StormEvent } from "../../src/cli/storm/events.ts";
import { freePort } from "../support/postgres-port.ts";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const store = fileURLToPath(new URL("../../examples/store", import.meta.url));
const { webhooks } = new Stripe("sk_test_only_for_signing");
export const secret = "whsec_store_test";

export interface Told {
  readonly recorded: number;
  readonly unfinished: number;
  readonly effects: { orders: string[]; credits: string[]; mails: string[]; access: string[] };
}

/** The store as `npm start` serves it, as a process of its own in a folder of its own. */
export class StoreServer {
  readonly folder: string;
  readonly port: number;
  readonly #env: Record<string, string>;
  #child: ChildProcess | undefined;
  output = "";

  private constructor(folder: string, port: number, env: Record<string, string>) {
    this.folder = folder;
    this.port = port;
    this.#env = env;
  }

  static async create(env: Record<string, string> = {}): Promise<StoreServer> {
    return new StoreServer(await mkdtemp(join(tmpdir(), "onceward-store-")), await freePort(), env);
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [main, "serve", store], {
      cwd: this.folder,
      env: {
        ...process.env,
        PORT: String(this.port),
        STRIPE_WEBHOOK_SECRET: secret,
        LEASE_SECONDS: "3",
        ...this.#env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        this.output += chunk.toString();
        if (chunk.includes('"message":"ready"')) resolve();
      });
      child.stderr.on("data", (chunk: Buffer) => (this.output += chunk.toString()));
      child.once("exit", (code) => reject(new Error(`the store ended with code ${code}: ${this.output}`)));
    });
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }

  /** Stops the process without ending it, as a machine that is far too slow. */
  pause(): void {
    this.#child?.kill("SIGSTOP");
  }

  resume(): void {
    this.#child?.kill("SIGCONT");
  }

  async remove(): Promise<void> {
    this.resume();
    await this.end("SIGKILL");
    await rm(this.folder, { recursive: true, force: true });
  }

  /** One delivery: its status, or 0 where no answer came in time. */
  async deliver(event: StormEvent, timeoutMs = 30_000): Promise<number> {
    const signature = webhooks.generateTestHeaderString({ payload: event.body, secret });
    try {
      const response = await fetch(`http://127.0.0.1:${this.port}/webhooks/stripe`, {
        method: "POST",
        body: event.body,
        headers: { "stripe-signature": signature },
        signal: AbortSignal.timeout(timeoutMs),
      });
      return response.status;
    } catch {
      return 0;
    }
  }

  /** As a sender does: again and again until a 2xx. */
  async deliverUntilTaken(event: StormEvent): Promise<void> {
    await vi.waitUntil(async () => (await this.deliver(event)) === 200, { timeout: 45_000, interval: 200 });
  }

  async tell(tag: string): Promise<Told> {
    const response = await fetch(`http://127.0.0.1:${this.port}/storm?tag=${tag}`);
    return (await response.json()) as Told;
  }

  /** Waits until everything that was recorded for the tag has settled. */
  async settled(tag: string, enough: (told: Told) => boolean = () => true): Promise<Told["effects"]> {
    const told = await vi.waitUntil(
      async () => {
        const now = await this.tell(tag).catch(() => undefined);
        return now && now.unfinished === 0 && enough(now) ? now : false;
      },
      { timeout: 45_000, interval: 100 },
    );
    return told.effects;
  }
}

let runs = 0;

/** Ids of their own for each test. */
export function freshTag(): string {
  return `t${Date.now().toString(36)}${(runs++).toString(36)}`;
}

export const checkout = (tag: string, n = 0, twin = false): StormEvent =>
  stormEvent("checkout.session.completed", tag, n, twin);
