/**
 * All that can be said about the code without running it: format, lint, types, unused code and
 * dependencies, and whether the package that npm would publish is whole. Side by side, to be fast.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const started = Date.now();
const packed = mkdtempSync(join(tmpdir(), "onceward-pack-"));
process.once("exit", () => rmSync(packed, { recursive: true, force: true }));

// First: examples and some tests see the package as its users do, through dist/.
await run("build", process.execPath, ["scripts/build.mjs"]);
await Promise.all([
  tool("format", "oxfmt", ["--check"]),
  tool("lint", "oxlint", ["--deny-warnings"]),
  tool("types", "tsc", ["-p", "."]),
  tool("unused", "knip", []),
  packageIsWhole(),
]);
console.log(`check ${process.exitCode ? "failed" : "passed"} ${elapsed()}`);

async function packageIsWhole() {
  exportsAreThere();
  await run("pack", "npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", packed]);
  const tarball = readdirSync(packed)
    .map((file) => join(packed, file))
    .find((file) => file.endsWith(".tgz"));
  if (!tarball) return;
  await Promise.all([
    tool("publint", "publint", ["--strict", tarball]),
    tool("attw", "attw", ["--profile", "esm-only", "--no-emoji", tarball]),
  ]);
}

/** Every file that package.json's `exports` and `bin` name has to be in dist/. */
function exportsAreThere() {
  const { exports, bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const targets = [exports, bin].flatMap(function files(value) {
    return typeof value === "string" ? [value] : Object.values(value).flatMap(files);
  });
  const missing = targets.filter((file) => !existsSync(join(root, file)));
  report(
    "exports",
    missing.length === 0,
    missing.map((file) => `package.json names ${file}, which the build does not make\n`).join(""),
  );
}

function tool(name, command, args) {
  return run(name, join(root, "node_modules/.bin", command), args);
}

/** Runs a command; its output is shown only if it fails. */
function run(name, command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk) => (output += chunk));
    }
    child.once("error", (error) => (output += error.message));
    child.once("close", (code) => {
      report(name, code === 0, output);
      resolve();
    });
  });
}

function report(name, passed, output) {
  console.log(`${passed ? "ok    " : "FAILED"} ${name} ${elapsed()}`);
  if (passed) return;
  process.stdout.write(output);
  process.exitCode = 1;
}

function elapsed() {
  return `(${((Date.now() - started) / 1000).toFixed(1)} s)`;
}
