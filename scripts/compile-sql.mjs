/**
 * Compiles sql/NNN_name.sql, in order, into src/ledger/sql.ts, so that nothing reads the disk at run
 * time and bundlers work. A migration whose first line is `-- breaking` is marked as such: an older
 * process must not run on the ledger after it.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = join(root, "sql");
const target = join(root, "src/ledger/sql.ts");

const migrations = readdirSync(folder)
  .filter((file) => file.endsWith(".sql"))
  .toSorted()
  .map((file, index) => {
    const match = /^(\d{3})_([a-z0-9_]+)\.sql$/.exec(file);
    if (!match) throw new Error(`sql/${file}: name a migration NNN_name.sql`);
    const version = Number(match[1]);
    if (version !== index + 1) {
      throw new Error(`sql/${file}: expected number ${index + 1}; numbers start at 001 and leave no gap`);
    }
    const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n");
    const breaking = text.split("\n", 1)[0] === "-- breaking";
    // Comments stay in the sources: a fifth of the text, which every install would carry and every function keep.
    return { version, name: match[2], breaking, text: text.replaceAll(/^[ \t]*--.*\n/gm, "") };
  });

const compiled = `// Compiled from sql/*.sql by scripts/compile-sql.mjs. Edit those.

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  readonly text: string;
}

export const migrations: readonly Migration[] = ${JSON.stringify(migrations, null, 2)};
`;

// Written only when it differs, and in one move: test runs beside each other share the file.
if (compiled !== read(target)) {
  mkdirSync(dirname(target), { recursive: true });
  const draft = `${target}.${process.pid}`;
  writeFileSync(draft, compiled);
  renameSync(draft, target);
}

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
