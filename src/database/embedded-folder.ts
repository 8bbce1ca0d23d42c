/** The data folder of the embedded Postgres: unpacked from a prepared one, all of it or nothing. */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { preparedArchive, unpack } from "./embedded-archive.ts";

export interface FolderOptions {
  /** The folder as the caller wrote it. */
  readonly shownAs: string;
  readonly log: (line: string) => void;
}

/**
 * Makes the data folder where there is none, and returns its path. Only who holds the folder's lock may call this.
 * A kill leaves either no data folder or a whole one: it is unpacked beside its place and then renamed. Nothing
 * waits for the disk here, as PGlite itself does not.
 */
export async function dataFolder(root: string, { shownAs, log }: FolderOptions): Promise<string> {
  const data = join(root, "data");
  const unfinished = join(root, "data.new");
  rmSync(unfinished, { recursive: true, force: true });
  if (existsSync(data)) return data;
  log(
    `Preparing an embedded Postgres in ${shownAs}, once. It survives crashes of the process, not power cuts.`,
  );
  writeFileSync(join(root, ".gitignore"), "*\n"); // It will hold payloads.
  mkdirSync(unfinished, { mode: 0o700 });
  unpack(await preparedArchive(log), unfinished);
  renameSync(unfinished, data);
  return data;
}
