/** Builds dist/ from sql/ and src/. Begins with an empty dist/, so that what was renamed leaves nothing behind. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const dist = join(root, "dist");

run(join(root, "scripts/compile-sql.mjs"));
// The data folder of the embedded database takes seconds to make and changes only with PGlite's version.
for (const name of existsSync(dist) ? readdirSync(dist) : []) {
  if (name !== "embedded") rmSync(join(dist, name), { recursive: true, force: true });
}
run(tsc(), "-p", "tsconfig.build.json");
run(join(root, "scripts/declarations.mjs"));
run(join(root, "scripts/bundle.mjs"));
run(join(root, "scripts/prepare-embedded.mjs"));

function run(...args) {
  const { status, error } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

function tsc() {
  const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
  return join(dirname(manifest), "bin/tsc");
}
