/**
 * A freshly initialised Postgres data folder as an archive, since making one takes PGlite seconds and unpacking one
 * a fraction of a second. It holds no schema of ours, so it goes out of date only with PGlite itself, whose version
 * is in its name. Brotli and not gzip: Postgres has its catalogue three times, and only a large window sees that
 * (1.5 MB instead of 4.5).
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, brotliDecompressSync, constants } from "node:zlib";
import { packageFile } from "../package.ts";
import { loadPglite } from "./driver.ts";

/** The archive for the installed PGlite: the one in this package, else one made here and kept for the next time. */
export async function preparedArchive(log: (line: string) => void): Promise<Buffer> {
  const pglite = installedPglite();
  // From the sources there is none in the package.
  const shipped = pglite && packageFile(`dist/embedded/${pglite.archive}`);
  // Not in a folder for temporary files: whoever else writes there would write our database.
  const cached = pglite && join(pglite.modules, ".cache/onceward", pglite.archive);
  for (const file of [shipped, cached]) if (file && existsSync(file)) return readFileSync(file);
  log("There is no prepared one for this version of @electric-sql/pglite: making it takes some seconds.");
  const archive = await makeArchive({ quality: 4 });
  if (cached) keep(cached, archive);
  return archive;
}

/**
 * Writes the archive that is shipped; returns where. For scripts/prepare-embedded.mjs.
 * @public
 */
export async function writeArchive(folder: string): Promise<string> {
  const pglite = installedPglite();
  if (!pglite) throw new Error("@electric-sql/pglite is not installed");
  const file = join(folder, pglite.archive);
  if (existsSync(file)) return file;
  rmSync(folder, { recursive: true, force: true }); // those of other versions
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, await makeArchive({ quality: 9 }));
  return file;
}

async function makeArchive({ quality }: { quality: number }): Promise<Buffer> {
  const PGlite = await loadPglite();
  const db = await PGlite.create();
  try {
    await db.exec("checkpoint");
    const tar = Buffer.from(await (await db.dumpDataDir("none")).arrayBuffer());
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
      [constants.BROTLI_PARAM_SIZE_HINT]: tar.length,
    };
    return await promisify(brotliCompress)(tar, { params });
  } finally {
    await db.close();
  }
}

/** A cache that cannot be written is no reason to fail. */
function keep(file: string, archive: Buffer): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const unfinished = `${file}.${process.pid}`;
    writeFileSync(unfinished, archive);
    renameSync(unfinished, file);
  } catch {
    // Made again next time.
  }
}

/** Undefined where it cannot be told, say in a bundle. */
function installedPglite(): { archive: string; modules: string } | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve("@electric-sql/pglite");
    const root = entry.slice(0, entry.lastIndexOf("pglite") + "pglite".length);
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    return { archive: `pglite-${version}.tar.br`, modules: join(root, "../..") };
  } catch {
    return undefined;
  }
}

/** Unpacks into an empty folder. */
export function unpack(archive: Buffer, folder: string): void {
  const made = new Set<string>();
  const make = (path: string): void => {
    if (made.has(path)) return;
    made.add(path);
    mkdirSync(path, { recursive: true, mode: 0o700 });
  };
  for (const { name, isFolder, data } of tarEntries(brotliDecompressSync(archive))) {
    // A lock of the process that was dumped, which ours would take for another server.
    if (name.endsWith("postmaster.pid")) continue;
    const path = join(folder, name);
    make(isFolder ? path : dirname(path));
    if (!isFolder) writeFileSync(path, data, { mode: 0o600 });
  }
  if (!existsSync(join(folder, "PG_VERSION"))) throw new Error("the prepared data folder is damaged");
}

const BLOCK = 512;

/** The part of the tar format that PGlite writes: files and folders with short names. */
function* tarEntries(tar: Buffer): Generator<{ name: string; isFolder: boolean; data: Buffer }> {
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const field = (from: number, length: number): string =>
      tar.toString("latin1", at + from, at + from + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8) || 0;
    const start = at + BLOCK;
    yield { name: field(0, 100), isFolder: field(156, 1) === "5", data: tar.subarray(start, start + size) };
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
}
