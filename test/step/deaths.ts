/** Runs a program again and again, each time killed a little later, until it comes to its end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { program } from "../support/program.ts";

/** At once: starting Node takes longer than what the programs do. */
const together = 4;
/** Far above what any program here needs: a count that never ends is a bug of its own. */
const mostDeaths = 1_000;

export interface Life {
  /** What must be there before its nth life. */
  readonly before?: (n: number) => Promise<unknown>;
  readonly args: (n: number) => readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A program of ours that can be killed at any point of its talk with the world. */
export class Mortal {
  readonly #file: string;

  private constructor(file: string) {
    this.#file = file;
  }

  static async of(file: URL): Promise<Mortal> {
    return new Mortal(await program(new URL("die.ts", import.meta.url), file));
  }

  /** How many points there were to die at; the program was killed once at each, and then ended by itself. */
  async killEverywhere(life: Life): Promise<number> {
    for (let first = 1; first < mostDeaths; first += together) {
      const lives = await Promise.all(Array.from({ length: together }, (_, i) => this.live(life, first + i)));
      const survivor = lives.indexOf("ended");
      if (survivor >= 0) return first + survivor - 1;
    }
    throw new Error(`the program did not come to its end within ${mostDeaths} pieces of data`);
  }

  /** One life of the program; 0: nothing kills it. */
  async live({ before, args, env }: Life, n: number): Promise<"killed" | "ended"> {
    await before?.(n);
    const child = spawn(process.execPath, [this.#file, ...args(n)], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, ...env, DIE_AT: String(n) },
    });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    if (signal === "SIGKILL") return "killed";
    if (code === 0) return "ended";
    throw new Error(`the program failed with ${code ?? signal} in life ${n}: ${said}`);
  }
}
