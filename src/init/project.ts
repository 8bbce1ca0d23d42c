/** What an existing project is made of, from its package.json, its lockfile and its folders. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { OncewardError } from "../errors.ts";

export const frameworks = ["next", "fastify", "express", "hono", "none"] as const;
export type Framework = (typeof frameworks)[number];

export const libraries = ["prisma", "drizzle", "kysely", "postgres", "supabase", "pg", "none"] as const;
export type Library = (typeof libraries)[number];

export type Manager = "npm" | "pnpm" | "yarn" | "bun";

export interface Project {
  readonly folder: string;
  readonly framework: Framework;
  readonly manager: Manager;
  readonly library: Library;
  readonly dependencies: ReadonlySet<string>;
  readonly typescript: boolean;
  /** How this project's own files name each other: "./a.ts", "./a.js" or "./a". */
  readonly extension: ".ts" | ".js" | "";
  /** Where its code is: "src", or "" where it lies in the folder itself. */
  readonly source: "src" | "";
  /** Next's app folder. */
  readonly app: "app" | "src/app";
  /** The folder of Prisma's generated client, where the schema names one. */
  readonly prismaOutput?: string | undefined;
}

interface Manifest {
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly packageManager?: string;
}

/** The package that gives each away. The first that is there counts: who has an ORM has its driver too. */
const frameworkPackages = { next: "next", fastify: "fastify", express: "express", hono: "hono" } as const;
const libraryPackages: Readonly<Record<Exclude<Library, "none">, readonly string[]>> = {
  prisma: ["@prisma/client", "prisma"],
  drizzle: ["drizzle-orm"],
  kysely: ["kysely"],
  postgres: ["postgres"],
  supabase: ["@supabase/supabase-js", "@supabase/ssr"],
  pg: ["pg"],
};
const lockfiles: readonly (readonly [string, Manager])[] = [
  ["pnpm-lock.yaml", "pnpm"],
  ["yarn.lock", "yarn"],
  ["bun.lock", "bun"],
  ["bun.lockb", "bun"],
  ["package-lock.json", "npm"],
];

/** Undefined where the folder holds no package.json. */
export function detectProject(folder: string): Project | undefined {
  const manifest = manifestIn(folder);
  if (manifest === undefined) return undefined;
  const dependencies = new Set(Object.keys({ ...manifest.dependencies, ...manifest.devDependencies }));
  const has = (path: string): boolean => existsSync(join(folder, path));
  const typescript = dependencies.has("typescript") || has("tsconfig.json");
  return {
    folder,
    dependencies,
    typescript,
    framework:
      frameworks.find((name) => name !== "none" && dependencies.has(frameworkPackages[name])) ?? "none",
    library:
      libraries.find(
        (name) => name !== "none" && libraryPackages[name].some((one) => dependencies.has(one)),
      ) ?? "none",
    manager: managerOf(folder, manifest),
    extension: typescript ? extensionIn(folder) : ".js",
    source: has("src") ? "src" : "",
    app: has("src/app") || (has("src") && !has("app")) ? "src/app" : "app",
    prismaOutput: prismaOutput(folder),
  };
}

/** By the lockfile here, or of the workspace around. */
function managerOf(folder: string, { packageManager }: Manifest): Manager {
  const named = /^(npm|pnpm|yarn|bun)@/.exec(packageManager ?? "")?.[1];
  if (named) return named as Manager;
  for (let at = folder; ; at = dirname(at)) {
    const found = lockfiles.find(([file]) => existsSync(join(at, file)));
    if (found) return found[1];
    // Beyond the repository somebody else's files begin.
    if (dirname(at) === at || existsSync(join(at, ".git"))) return "npm";
  }
}

/** As tsconfig.json wants it; comments and commas at ends are legal there, so it is read by looking. */
function extensionIn(folder: string): Project["extension"] {
  const text = read(join(folder, "tsconfig.json"))?.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "") ?? "";
  const option = (name: string): string | undefined =>
    new RegExp(`"${name}"\\s*:\\s*"?(\\w+)`).exec(text)?.[1]?.toLowerCase();
  if (option("allowImportingTsExtensions") === "true" || option("rewriteRelativeImportExtensions") === "true")
    return ".ts";
  const how = option("moduleResolution") ?? option("module") ?? "";
  return how.startsWith("node1") || how === "nodenext" ? ".js" : "";
}

function prismaOutput(folder: string): string | undefined {
  for (const path of ["prisma/schema.prisma", "schema.prisma"]) {
    const output = /generator\s+\w+\s*\{[^}]*?\boutput\s*=\s*"([^"]+)"/.exec(
      read(join(folder, path)) ?? "",
    )?.[1];
    if (output) return join(dirname(path), output);
  }
  return undefined;
}

function manifestIn(folder: string): Manifest | undefined {
  const path = join(folder, "package.json");
  const text = read(path);
  if (text === undefined) return undefined;
  let manifest: unknown;
  try {
    // Some editors begin a file with a mark of its encoding, which npm passes over as well.
    manifest = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    // What the parser says would quote the file.
  }
  if (typeof manifest !== "object" || manifest === null)
    throw new OncewardError("config_invalid", `${path} is no JSON object. Mend it first: npm needs it, too.`);
  return manifest;
}

function read(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}
