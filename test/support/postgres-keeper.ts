/**
 * A keeper is a small shell that outlives us, however we end (Ctrl-C, SIGKILL, a crash), and then ends
 * the server and removes its folder. It learns of our end by the closing of its standard input.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { ended } from "./postgres-process.ts";

const script = `
  trap '' INT TERM HUP
  last=0
  while read -r pid; do last=$pid; done
  if [ "$last" -gt 0 ] && kill -QUIT "$last"; then
    tries=100
    while [ "$tries" -gt 0 ] && kill -0 "$last"; do sleep 0.05; tries=$((tries - 1)); done
  fi
  rm -rf "$1"
`;

// A test process whose runner was killed would stay, with all that it keeps.
process.once("disconnect", () => process.exit());

export interface Keeper {
  /** From now on this process is the one to end. */
  readonly watch: (child: ChildProcess) => void;
  /** Ends it all now, and resolves when the folder is gone. */
  readonly end: () => Promise<void>;
}

export function keep(folder: string): Keeper {
  const shell = spawn("/bin/sh", ["-c", script, "keeper", folder], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  // Somebody ended the keeper: then there is nobody to tell, and nothing to do about it.
  shell.stdin.on("error", () => undefined);
  // It waits for our end, so it must not put it off.
  shell.unref();
  (shell.stdin as Socket).unref();
  return {
    watch(child) {
      if (child.pid === undefined) return; // It could not be started.
      shell.stdin.write(`${child.pid}\n`);
      // After its end the number may come to mean somebody else's process.
      child.once("exit", () => shell.stdin.write("0\n"));
    },
    async end() {
      shell.ref();
      shell.stdin.end();
      await ended(shell);
    },
  };
}
