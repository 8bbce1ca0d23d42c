/** Makes the data folder that the embedded Postgres starts from: dist/embedded/. Run after the compiler. */
import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeArchive } from "../dist/database/embedded-archive.js";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const file = await writeArchive(join(dist, "embedded"));
console.log(`${file} ${(statSync(file).size / 1e6).toFixed(1)} MB`);
