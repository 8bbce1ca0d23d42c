/** A small disk of its own, in memory. It is unmounted when we end, however that happens. */
import { spawn } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Socket } from "node:net";
import { Unavailable } from "../support/postgres-binaries.ts";
import { ended } from "../support/postgres-process.ts";
import { serverFolder, serverUser } from "../support/postgres-user.ts";

export interface Tmpfs {
  readonly folder: string;
  /** Leaves no byte free, until `free`. */
  fill(): void;
  free(): void;
  unmount(): Promise<void>;
}

/** Outlives us, and unmounts when its standard input closes. Lazily, as somebody may still be at work there. */
const script = `
  trap '' INT TERM HUP
  mount -t tmpfs -o "size=$2m,uid=$3,gid=$4,mode=700" tmpfs "$1" || { rmdir "$1"; exit 1; }
  echo mounted
  cat > /dev/null
  umount -l "$1" && rmdir "$1"
`;

/** Mounting is for root, and not for every root. */
export class NotPermitted extends Unavailable {
  override readonly name = "NotPermitted" as "Unavailable";
}

/** Rejects with NotPermitted where we may not. */
export async function mountTmpfs(megabytes: number): Promise<Tmpfs> {
  const folder = serverFolder("onceward-tmpfs-");
  const user = serverUser() ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const args = ["-c", script, "tmpfs", folder, String(megabytes), String(user.uid), String(user.gid)];
  const shell = spawn("/bin/sh", args, { cwd: "/", detached: true, stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  shell.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  shell.stdin.on("error", () => undefined);
  await new Promise<void>((resolve, reject) => {
    shell.stdout.once("data", () => resolve());
    shell.once("error", reject);
    shell.once("exit", () => reject(new NotPermitted(`a tmpfs cannot be mounted here: ${said.trim()}`)));
  });
  // They wait for our end, so they must not put it off.
  shell.unref();
  for (const stream of [shell.stdin, shell.stdout, shell.stderr]) (stream as Socket).unref();

  const ballast = join(folder, "ballast");
  return {
    folder,
    fill() {
      const file = openSync(ballast, "w");
      try {
        // Down to the last page, which a large write would leave free.
        for (const size of [1 << 20, 4_096]) {
          const zeros = Buffer.alloc(size);
          try {
            while (writeSync(file, zeros) > 0);
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
          }
        }
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(ballast, { force: true }),
    async unmount() {
      shell.ref();
      shell.stdin.end();
      await ended(shell);
    },
  };
}
