/** Handlers without a test of idempotency: nothing that calls proveHandler names them. */
import { type Dirent, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Finding, Findings } from "./finding.ts";

const skipped = new Set(["node_modules", "dist", "build", "coverage", ".git", ".next", ".onceward"]);
const isTest = /(\.|-|_)(test|spec)\.[cm]?[jt]sx?$/;
const inTests = /(^|[\\/])(tests?|__tests__|spec)[\\/]/;
const isCode = /\.[cm]?[jt]sx?$/;
/** A project has fewer; a folder with more is none. */
const mostFiles = 20_000;
const mostBytes = 1_000_000;

export interface NamedHandler {
  readonly source: string;
  readonly name: string;
  /** The type it was registered for, or a beginning and a star. */
  readonly pattern: string;
}

export function judgeProofs(handlers: readonly NamedHandler[], folder: string): Finding[] {
  const about = new Findings("handlers");
  const proofs = proofsIn(projectOf(folder));
  const unproven = handlers.filter((handler) => !proofs.some((text) => names(text, handler)));
  if (unproven.length > 0)
    about.advice(
      "handlers_unproven",
      `No test proves that these take effect once: ${unproven.map(({ source, name }) => `${source} ${name}`).join(", ")}.`,
      "Write a test with proveHandler of onceward/testing for each (docs/testing.md): it delivers twice, at once, and with crashes.",
    );
  return about.all;
}

/** By its name, its type, or a type that begins as its pattern says. */
function names(text: string, { name, pattern }: NamedHandler): boolean {
  const beginning = pattern.endsWith("*") ? pattern.slice(0, -1) : undefined;
  const quoted = (value: string): boolean =>
    ['"', "'", "`"].some((quote) => text.includes(`${quote}${value}${beginning === undefined ? quote : ""}`));
  return quoted(beginning ?? pattern) || quoted(name);
}

/** The texts of test files that prove something. */
function proofsIn(root: string): string[] {
  const found: string[] = [];
  let files = 0;
  const walk = (folder: string, below: string): void => {
    for (const entry of entriesOf(folder)) {
      if (skipped.has(entry.name) || ++files > mostFiles) continue;
      const path = join(folder, entry.name);
      const relative = join(below, entry.name);
      if (entry.isDirectory()) walk(path, relative);
      else if (isCode.test(entry.name) && (isTest.test(entry.name) || inTests.test(relative))) {
        const text = textOf(path);
        if (text.includes("proveHandler")) found.push(text);
      }
    }
  };
  walk(root, "");
  return found;
}

function textOf(path: string): string {
  try {
    return statSync(path).size <= mostBytes ? readFileSync(path, "utf8") : "";
  } catch {
    return ""; // A link to nowhere, or somebody else's file.
  }
}

/** What cannot be read holds no test of ours. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The nearest folder with a package.json. */
function projectOf(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, "package.json"))) return at;
    if (dirname(at) === at) return folder;
  }
}
