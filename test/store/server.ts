import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Stripe from "stripe";
import { vi } from "vitest";
import type { StormEvent } from "../../src/cli/storm/events.ts";
import { type MailServer, startMailServer } from "../mail/smtp.ts";
import { scratch } from "../support/scratch.ts";
import { main } from "./cli.ts";
import { clockEvent } from "./events.ts";

const shop = fileURLToPath(new URL("shop", import.meta.url));
const { webhooks } = new Stripe("sk_test_only_for_signing");
export const secret = "whsec_store_test";

/** For hangs alone: the machine may be slow and busy. */
const patience = { timeout: 90_000, interval: 100 };

export interface Told {
  readonly recorded: number;
  readonly unfinished: number;
  readonly effects: Record<"orders" | "credits" | "refunds" | "access" | "mails", string[]>;
}

/** The store as `npm start` serves it, as a process of its own in a folder of its own. */
export class StoreServer {
  readonly folder: string;
  /** Where it is, or was last: the system chooses its port, each time another one. */
  url = "";
  readonly env: Readonly<Record<string, string>>;
  readonly smtp: MailServer;
  #child: ChildProcess | undefined;
  #days = 0;
  output = "";

  private constructor(folder: string, smtp: MailServer, env: Record<string, string>) {
    this.folder = folder;
    this.smtp = smtp;
    // Short, so that what a killed process held comes back soon.
    this.env = { STRIPE_WEBHOOK_SECRET: secret, LEASE_SECONDS: "3", ...env };
  }

  static async create(env: Record<string, string>): Promise<StoreServer> {
    const folder = await mkdtemp(join(scratch(), "onceward-store-"));
    return new StoreServer(folder, await startMailServer(), env);
  }

  /** Mails go to files, or to the mail server. */
  async start({ mail = "files" }: { mail?: "files" | "smtp" } = {}): Promise<void> {
    const child = spawn(process.execPath, ["--liftoff-only", main, "serve", shop, "--port", "0"], {
      cwd: this.folder,
      env: {
        PATH: process.env["PATH"],
        ...this.env,
        // A mail that is being sent when its lease lapses is parked: not on a machine that is merely slow.
        ...(mail === "smtp" ? { SMTP_URL: `smtp://127.0.0.1:${this.smtp.port}`, LEASE_SECONDS: "60" } : {}),
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    const before = this.output.length;
    this.url = "";
    this.url = await new Promise<string>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        this.output += chunk.toString();
        if (this.url) return;
        const health = /"message":"ready".*"health":"([^"]+)\/healthz"/.exec(this.output.slice(before));
        if (health) resolve(health[1]!);
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
    await this.smtp.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** One delivery: its status, or 0 where no answer came in time. */
  async deliver(event: StormEvent, timeoutMs = 60_000): Promise<number> {
    const signature = webhooks.generateTestHeaderString({ payload: event.body, secret });
    try {
      const response = await fetch(`${this.url}/webhooks/stripe`, {
        method: "POST",
        body: event.body,
        // A connection that is kept may be closed just as the next request is sent.
        headers: { "stripe-signature": signature, connection: "close" },
        signal: AbortSignal.timeout(timeoutMs),
      });
      return response.status;
    } catch {
      return 0;
    }
  }

  /** As a sender does: again and again until it is answered so. */
  async deliverUntil(status: number, event: StormEvent): Promise<void> {
    await vi.waitUntil(async () => (await this.deliver(event)) === status, patience);
  }

  /** So many days pass for the ledger. */
  async pass(days: number): Promise<void> {
    this.#days += days;
    await this.deliverUntil(200, clockEvent(this.#days));
  }

  async tell(tag: string): Promise<Told> {
    const response = await fetch(`${this.url}/storm?tag=${tag}`, { headers: { connection: "close" } });
    return (await response.json()) as Told;
  }

  /** Every mail that went out and holds this text. */
  async mails(text: string): Promise<string[]> {
    const folder = join(this.folder, ".onceward/mail");
    const files = (await readdir(folder).catch(() => [])).filter((file) => file.endsWith(".eml"));
    const written = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
    return [...written, ...this.smtp.texts]
      .map((mail) => mail.replaceAll("=\r\n", ""))
      .filter((mail) => mail.includes(text));
  }

  /** Waits until nothing is under way and there is enough of what is wanted. */
  async settled(
    tag: string,
    enough: (effects: Told["effects"], recorded: number) => boolean | Promise<boolean> = () => true,
  ): Promise<Told["effects"]> {
    const told = await vi.waitUntil(async () => {
      const now = await this.tell(tag).catch(() => undefined);
      return now && now.unfinished === 0 && (await enough(now.effects, now.recorded)) ? now : false;
    }, patience);
    return told.effects;
  }

  /** Waits until the log of the process says so. */
  async says(what: RegExp): Promise<void> {
    await vi.waitUntil(() => what.test(this.output), patience);
  }
}
