import { spawn, type ChildProcess } from "node:child_process";
import { packageFile } from "../../package.ts";
import { Failure } from "../fail.ts";

const main = packageFile("dist/cli/main.js") ?? "dist/cli/main.js";

/**
 * A server process of our own, to be killed and started again. The system chooses its port, each time another one: a
 * port that was seen to be free may be taken by the time a server is up.
 */
export class Victim {
  readonly #target: string;
  #child: ChildProcess | undefined;
  /** Where it is; nowhere while it is down. */
  base: string | undefined;
  kills = 0;

  private constructor(target: string) {
    this.#target = target;
  }

  static async start(target: string): Promise<Victim> {
    const victim = new Victim(target);
    await victim.#spawn();
    return victim;
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
    const child = spawn(process.execPath, [main, "serve", this.#target, "--port", "0"], {
      stdio: ["ignore", "pipe", "pipe"],
      // For configurations that read it, as examples/store does: what a killed process held comes back soon.
      env: { LEASE_SECONDS: "5", ...process.env },
    });
    this.#child = child;
    let said = "";
    let last = "";
    this.base = await new Promise<string>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        if (this.base) return;
        said += chunk.toString();
        const health = /"message":"ready".*"health":"([^"]+)\/healthz"/.exec(said);
        if (health) resolve(health[1]!);
      });
      child.stderr.on("data", (chunk: Buffer) => (last = chunk.toString().trim() || last));
      child.once("exit", (code) => reject(new Failure(`The server ended with code ${code}. ${last}`)));
    });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.base = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.removeAllListeners("exit");
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }
}
