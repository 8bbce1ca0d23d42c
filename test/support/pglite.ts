/** A PGlite for tests, from the prepared data folder: making one anew costs five seconds of CPU each time. */
import { brotliDecompressSync } from "node:zlib";
import { PGlite } from "@electric-sql/pglite";
import { preparedArchive } from "../../src/database/embedded-archive.ts";

export async function createPglite(): Promise<PGlite> {
  const archive = brotliDecompressSync(await preparedArchive(() => {}));
  return PGlite.create({ loadDataDir: new Blob([archive]) });
}
