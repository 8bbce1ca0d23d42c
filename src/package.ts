/** Files of this package, wherever in it the code that asks was bundled to. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

interface Manifest {
  readonly name?: string;
  readonly version: string;
}

/** The path of a file of this package; undefined where our code is part of somebody's bundle. */
export function packageFile(path: string): string | undefined {
  const root = packageRoot();
  return root && join(root.folder, path);
}

/** The version in package.json. */
export function ownVersion(): string {
  return packageRoot()?.manifest.version ?? "unknown";
}

function packageRoot(): { folder: string; manifest: Manifest } | undefined {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const manifest = manifestIn(folder);
    if (manifest?.name === "onceward") return { folder, manifest };
    if (folder === dirname(folder)) return undefined;
  }
}

function manifestIn(folder: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  } catch {
    return undefined;
  }
}
