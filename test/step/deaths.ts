/** Runs a program again and again, each time killed a little later, until it comes to its end. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../../", import.meta.url));
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

/** A TypeScript program of ours, compiled once: compiling it in each of its lives would take most of them. */
export class Program {
  readonly #folder: string;
  readonly #file: string;

  private constructor(folder: string, file: string) {
    this.#folder = folder;
    this.#file = file;
  }

  static async compile(file: URL): Promise<Program> {
    // Inside the package, where `onceward` is its name.
    await mkdir(join(root, ".onceward"), { recursive: true });
    const folder = await mkdtemp(join(root, ".onceward/program-"));
    const path = fileURLToPath(file);
    const config = {
      extends: join(root, "tsconfig.json"),
      compilerOptions: { noEmit: false, declaration: false, noCheck: true, rootDir: root, outDir: folder },
      include: [],
      files: [path, join(root, "test/step/die.ts")],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    await promisify(execFile)(process.execPath, [
      join(root, "node_modules/typescript/bin/tsc"),
      "-p",
      folder,
    ]);
    return new Program(folder, path);
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
    const child = spawn(
      process.execPath,
      ["--import", this.#compiled(join(root, "test/step/die.ts")), this.#compiled(this.#file), ...args(n)],
      { cwd: root, stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...env, DIE_AT: String(n) } },
    );
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    if (signal === "SIGKILL") return "killed";
    if (code === 0) return "ended";
    throw new Error(`the program failed with ${code ?? signal} in life ${n}: ${said}`);
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }

  #compiled(file: string): string {
    return join(this.#folder, relative(root, file).replace(/\.ts$/, ".js"));
  }
}
