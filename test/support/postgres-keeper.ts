/**
 * A keeper is a small shell that outlives us, however we end (Ctrl-C, SIGKILL, a crash), and then ends
 * the server and removes its folder. It learns of our end by the closing of its standard input.
 */
import { spawn } from "node:child_process";
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

export interface Keeper {
  /** From now on this process is the one to end; 0: there is none. */
  watch(pid: number): void;
  /** Ends it all now, and resolves when the folder is gone. */
  end(): Promise<void>;
}

export function keep(folder: string): Keeper {
  const shell = spawn("/bin/sh", ["-c", script, "keeper", folder], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  // Somebody ended the keeper: then there is nobody to tell, and nothing to do about it.
  shell.stdin.on("error", () => undefined);
  return {
    watch(pid) {
      shell.stdin.write(`${pid}\n`);
    },
    async end() {
      shell.stdin.end();
      await ended(shell);
    },
  };
}
