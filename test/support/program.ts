/**
 * Programs of ours that tests run as processes of their own, as one JavaScript file each: compiling the sources in
 * every process would take most of its time.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** Inside the package, where `onceward` is its name; git does not see it. */
const folder = join(root, ".onceward/programs");

/** The file that runs these, one after another. Made anew from the sources of now. */
export async function program(...files: readonly URL[]): Promise<string> {
  const paths = files.map((file) => fileURLToPath(file));
  const id = createHash("sha256").update(paths.join("\n")).digest("hex").slice(0, 12);
  const file = join(folder, `${basename(paths.at(-1)!, ".ts")}-${id}.mjs`);
  const bundle = await rolldown({
    input: "all",
    cwd: root,
    platform: "node",
    // Packages are found where they are.
    external: /^[^./\0]/,
    // Programs are there for what they do, whatever package.json says of the library.
    treeshake: false,
    plugins: [
      {
        name: "all",
        resolveId: (name) => (name === "all" ? "\0all" : undefined),
        load: (name) =>
          name === "\0all" ? paths.map((path) => `import ${JSON.stringify(path)};`).join("\n") : undefined,
      },
    ],
  });
  // Another test file may make the same one: whoever comes last, it is whole.
  const unfinished = `${file}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  await bundle.write({ file: unfinished, format: "esm", codeSplitting: false });
  await bundle.close();
  renameSync(unfinished, file);
  return file;
}
