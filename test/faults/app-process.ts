/** `onceward serve` of the application in app/, in a process of its own that is killed, stopped and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { freePort } from "../support/postgres-port.ts";
import { ended, hasEnded } from "../support/postgres-process.ts";

export type Role = "server" | "worker";

export interface AppOptions {
  readonly role: Role;
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
}

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const app = fileURLToPath(new URL("app", import.meta.url));
const clock = new URL("wrong-clock.mjs", import.meta.url).href;

/** What stood last on its standard error, to say why one did not start. */
const saidKept = 2_000;

/** Ended with us; one that is stopped just then would not notice that we are gone. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export class AppProcess {
  readonly role: Role;
  readonly port: number;
  readonly #options: AppOptions;
  #child: ChildProcess | undefined;
  #starts = 0;

  private constructor(options: AppOptions, port: number) {
    this.role = options.role;
    this.port = port;
    this.#options = options;
  }

  static async start(options: AppOptions): Promise<AppProcess> {
    for (let tries = 1; ; tries++) {
      const made = new AppProcess(options, await freePort());
      try {
        await made.start();
        return made;
      } catch (error) {
        // Somebody else took it in the meantime.
        if (tries === 5 || !/Port \d+ .* is taken/.test(String(error))) throw error;
      }
    }
  }

  /** Resolves once it serves. It comes back on the same port. */
  async start(): Promise<void> {
    const { role, url, env } = this.#options;
    const args = ["--import", clock, main, "serve", app, "--port", String(this.port)];
    const child = spawn(process.execPath, args, {
      env: {
        PATH: process.env["PATH"],
        STRIPE_WEBHOOK_SECRET: "whsec_of_the_faults",
        DATABASE_URL: url,
        FAULTS_ROLE: role,
        FAULTS_NAIVE: process.env["FAULTS_NAIVE"],
        // Another one each time, so that a wrong clock is wrong in another way when its process comes back.
        FAULTS_START: String(this.#starts++),
        ...env,
      },
      // The channel tells it when we are gone, however we ended.
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-saidKept)));
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        reject(new Error(`the ${role} ended before it served (${signal ?? code}): ${said.trim()}`));
      });
      child.stdout?.on("data", function look(chunk: Buffer) {
        if (!chunk.includes('"ready"')) return;
        child.stdout?.off("data", look).resume();
        resolve();
      });
    });
  }

  /** Whether it ended by itself, which none may: faults come from outside. */
  get ended(): boolean {
    return this.#child !== undefined && hasEnded(this.#child);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    if (!hasEnded(child)) child.kill("SIGKILL");
    await ended(child);
  }
}
