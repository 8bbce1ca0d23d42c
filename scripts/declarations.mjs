/** Removes the type declarations that no entry reaches: tsc writes one for each source. */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { entries, root } from "./entries.mjs";

const dist = join(root, "dist");
const reached = new Set();
for (const name of entries) reach(join(dist, `${name}.d.ts`));
for (const name of readdirSync(dist, { recursive: true })) {
  if (name.endsWith(".d.ts") && !reached.has(join(dist, name))) rmSync(join(dist, name));
}

function reach(file) {
  if (reached.has(file)) return;
  if (!existsSync(file)) throw new Error(`${relative(root, file)} is named and not there`);
  reached.add(file);
  for (const [, target] of readFileSync(file, "utf8").matchAll(/(?:from|import\()\s*"(\.[^"]+)\.[jt]s"/g)) {
    reach(`${resolve(dirname(file), target)}.d.ts`);
  }
}
