import { spawn, type ChildProcess } from "node:child_process";
import { createServer } from "node:net";
import { packageFile } from "../../package.ts";
import { Failure } from "../fail.ts";

const main = packageFile("dist/cli/main.js") ?? "dist/cli/main.js";

/** A server process of our own, to be killed and started again. */
export class Victim {
  readonly #target: string;
  readonly #port: number;
  #child: ChildProcess | undefined;
  kills = 0;

  private constructor(target: string, port: number) {
    this.#target = target;
    this.#port = port;
  }

  static async start(target: string): Promise<Victim> {
    const victim = new Victim(target, await freePort());
    await victim.#spawn();
    return victim;
  }

  get base(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Kills it, and starts it again. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
    this.kills += 1;
    await this.#spawn();
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  async #spawn(): Promise<void> {
    const child = spawn(process.execPath, [main, "serve", this.#target, "--port", String(this.#port)], {
      stdio: ["ignore", "pipe", "pipe"],
      // For configurations that read it, as examples/store does: what a killed process held comes back soon.
      env: { LEASE_SECONDS: "5", ...process.env },
    });
    this.#child = child;
    let said = "";
    let last = "";
    await new Promise<void>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        if (said.length < 100_000) said += chunk.toString();
        if (said.includes('"message":"ready"')) resolve();
      });
      child.stderr.on("data", (chunk: Buffer) => (last = chunk.toString().trim() || last));
      child.once("exit", (code) => reject(new Failure(`The server ended with code ${code}. ${last}`)));
    });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.removeAllListeners("exit");
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }
}

/** Below those that systems hand out to outgoing connections, so that none takes it while the server is down. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer().once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
}
