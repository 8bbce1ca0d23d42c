/** What the package offers, by package.json: src/source/stripe.ts becomes dist/source/stripe.js. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");
export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Names without folder and extension: `index`, `source/stripe`, `cli/main`. */
export const entries = [...Object.values(manifest.exports), ...Object.values(manifest.bin)]
  .map((target) => (typeof target === "string" ? target : target.default))
  .filter((file) => file.endsWith(".js"))
  .map((file) => file.replace(/^(\.\/)?dist\//, "").replace(/\.js$/, ""));
