/** What a package weighs: on the disk with all it depends on, and in time to import. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Footprint } from "./results.ts";
import { median } from "./statistics.ts";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..");

/** Whoever uses Postgres or Redis from Node has these. */
const drivers = new Set(["pg", "ioredis"]);

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, { readonly default: string }>>;
}

/** Of a package that is installed here. */
export function footprintOf(name: string): Footprint {
  const folder = join(here, "node_modules", name);
  return {
    version: manifest(folder).version,
    importMs: importMs(name),
    installMb: [...closure(folder)].reduce((sum, one) => sum + size(one), 0) / 1e6,
  };
}

/** Of the package that this repository makes, as npm would publish it. */
export function ownFootprint(): Footprint {
  const { version, exports } = manifest(root);
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const { files } = (JSON.parse(packed) as { files: { path: string; size: number }[] }[])[0]!;
  // The prepared data folder of the embedded database is not looked at by who has a server.
  const own = files.filter(({ path }) => !path.startsWith("dist/embedded/"));
  const total = own.reduce((sum, file) => sum + file.size, 0);
  const dependencies = [...closure(root)].filter((folder) => folder !== root);
  const entry = join(root, exports?.["."]?.default ?? "dist/once.js");
  return {
    version,
    ...(existsSync(entry) && { importMs: importMs(pathToFileURL(entry).href) }),
    installMb: dependencies.reduce((sum, one) => sum + size(one), total) / 1e6,
  };
}

function manifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

/** The folders of a package and of everything that npm installs with it, without drivers. */
function closure(folder: string, seen = new Set<string>()): Set<string> {
  if (seen.has(folder)) return seen;
  seen.add(folder);
  for (const name of Object.keys(manifest(folder).dependencies ?? {})) {
    const found = drivers.has(name) ? undefined : resolve(name, folder);
    if (found) closure(found, seen);
  }
  return seen;
}

function resolve(name: string, from: string): string | undefined {
  for (let at = from; at !== dirname(at); at = dirname(at)) {
    const folder = join(at, "node_modules", name);
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return undefined;
}

/** Without packages nested in it, which are counted as what they are. */
function size(folder: string): number {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    if (entry.name === "node_modules") return sum;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sum + size(path);
    return entry.isFile() ? sum + statSync(path).size : sum;
  }, 0);
}

/** In a new process each time; the first one fills the caches of the disk. */
function importMs(specifier: string): number {
  const code = `const t = performance.now(); await import(${JSON.stringify(specifier)}); console.log(performance.now() - t); process.exit();`;
  const times = Array.from({ length: 6 }, () =>
    Number(
      execFileSync(process.execPath, ["--input-type=module", "-e", code], { cwd: here, encoding: "utf8" }),
    ),
  );
  return median(times.slice(1));
}
