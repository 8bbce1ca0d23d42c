/**
 * Bundles src/ into dist/: one file an entry, and what entries share once, in dist/shared/. So that importing takes a
 * third of the time that as many files as sources would, and the package has no dependencies: what the command line
 * uses of others is in it, with their licences.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { rolldown } from "rolldown";
import { entries, manifest, root } from "./entries.mjs";

/** Drivers and senders' libraries are their users' own; see peerDependencies. */
const external = [
  /^node:/,
  ...Object.keys(manifest.peerDependencies).map((name) => new RegExp(`^${name}(/|$)`)),
];

const bundle = await rolldown({
  input: Object.fromEntries(
    // The archive of the embedded database is made by the build itself.
    [...entries, "database/embedded-archive"].map((name) => [name, join(root, "src", `${name}.ts`)]),
  ),
  platform: "node",
  external,
});
const { output } = await bundle.write({
  dir: join(root, "dist"),
  format: "esm",
  entryFileNames: "[name].js",
  chunkFileNames: "shared/[name].js",
  // Comments are in the sources; names stay, for stack traces.
  comments: { legal: true, annotation: true, jsdoc: false },
  minify: { compress: false, mangle: false, codegen: { removeWhitespace: false } },
});
await bundle.close();

const packages = new Set();
for (const { modules = {} } of output) {
  for (const id of Object.keys(modules)) {
    const found = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id);
    if (found) packages.add(found[1]);
  }
}
mkdirSync(join(root, "dist"), { recursive: true });
writeFileSync(
  join(root, "dist/LICENSES.txt"),
  [...packages]
    .toSorted()
    .map((folder) => {
      const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
    })
    .join("\n---\n\n"),
);
console.log(
  `${output.length} files, with ${[...packages].map((folder) => folder.slice(dirname(folder).length + 1)).join(", ")}`,
);
