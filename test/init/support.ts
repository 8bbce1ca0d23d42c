/** Small projects in temporary folders, as `onceward init` finds them. */
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
const main = join(root, "dist/cli/main.js");

export interface Fixture {
  readonly dependencies?: readonly string[];
  readonly manifest?: object;
  /** Files by their paths. */
  readonly files?: Readonly<Record<string, string>>;
  readonly tsconfig?: object;
}

const folders: string[] = [];

/** In a temporary folder of its own, or as a folder of one that `workspace` made. */
export function makeProject(
  { dependencies = [], manifest = {}, files = {}, tsconfig }: Fixture,
  folder = temporary(),
): string {
  const versions = Object.fromEntries(dependencies.map((name) => [name, "*"]));
  write(
    folder,
    "package.json",
    JSON.stringify({ name: "shop", type: "module", dependencies: versions, ...manifest }),
  );
  if (tsconfig) {
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: "es2022",
      types: ["node"],
      skipLibCheck: true,
    };
    write(folder, "tsconfig.json", JSON.stringify({ compilerOptions: { ...compilerOptions, ...tsconfig } }));
  }
  for (const [path, text] of Object.entries(files)) write(folder, path, text);
  return folder;
}

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "onceward-init-"));
  folders.push(folder);
  return folder;
}

/** A folder in which all packages are installed that this repository has, and the repository itself. */
export function workspace(): string {
  const folder = temporary();
  const modules = join(folder, "node_modules");
  mkdirSync(modules);
  for (const name of readdirSync(join(root, "node_modules")).filter((one) => !one.startsWith(".")))
    symlinkSync(join(root, "node_modules", name), join(modules, name));
  symlinkSync(root, join(modules, "onceward"));
  return folder;
}

/** Throws with what the compiler says. */
export function checkTypes(folder: string): void {
  try {
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], {
      stdio: "pipe",
    });
  } catch (error) {
    throw new Error(String((error as { stdout: Buffer }).stdout), { cause: error });
  }
}

export function removeProjects(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

export function write(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

export interface Served {
  /** The address of the source, once it is served. */
  readonly listening: Promise<string>;
  stop(): Promise<void>;
}

/** A command of `onceward` in a project, and how it ended. */
export function command(
  folder: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<{ code: number; out: string }> {
  const { PATH = "" } = process.env;
  return new Promise((done) => {
    execFile(
      process.execPath,
      [main, ...args],
      { cwd: folder, env: { PATH, ...env } },
      (error, stdout, stderr) => done({ code: error ? Number(error.code) : 0, out: stdout + stderr }),
    );
  });
}

/** `onceward serve` in a project, on a port of its own. */
export function serve(folder: string, env: Record<string, string>): Served {
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [main, "serve"], {
    cwd: folder,
    env: { PATH, PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let said = "";
  const listening = new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      said += String(chunk);
      const url = /"url":"([^"]+)"/.exec(said)?.[1];
      // Everything is mounted once it says that it is ready.
      if (url && said.includes('"message":"ready"')) resolve(url);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => reject(new Error(`it ended: ${said}`)));
  });
  return {
    listening,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
