/**
 * Postgres and PgBouncer refuse to run as root. Where the tests do (CI containers), the servers run as
 * the user `postgres`, or `nobody` where no Postgres was ever installed.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync } from "node:fs";
import { scratch } from "./scratch.ts";
import { join } from "node:path";

export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

/** Whom servers run as; undefined: as ourselves, since we are not root. */
export function serverUser(): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const uid = id("-u", name);
    const gid = id("-g", name);
    if (uid !== undefined && gid !== undefined) return { uid, gid };
  }
  throw new Error("as root, the tests need an OS user `postgres` or `nobody` to run Postgres as");
}

/** A new folder that belongs to that user, where temporary data goes unless told. */
export function serverFolder(prefix: string, within = scratch()): string {
  const folder = mkdtempSync(join(within, prefix));
  chmodSync(folder, 0o700);
  const user = serverUser();
  if (user) chownSync(folder, user.uid, user.gid);
  return folder;
}

function id(flag: "-u" | "-g", name: string): number | undefined {
  const { status, stdout } = spawnSync("id", [flag, name], { encoding: "utf8" });
  return status === 0 ? Number(stdout) : undefined;
}
