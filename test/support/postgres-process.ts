/** Starting a server process until it says that it is ready, and taking one down with all its children. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { serverUser } from "./postgres-user.ts";

/** Enough of a log to say why a server did not start, in characters. */
const LOG_KEPT = 8_000;

export interface ServerCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** What its log says once it accepts connections. */
  readonly ready: RegExp;
  /** Told of the process as soon as there is one: it has to be ended even if it never becomes ready. */
  readonly onSpawn: (child: ChildProcess) => void;
}

/** Resolves once the server is ready; rejects with its log if it ends before. */
export function startProcess({ file, args, cwd, ready, onSpawn }: ServerCommand): Promise<ChildProcess> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, [...args], {
      cwd,
      // Its own process group: Ctrl-C in the terminal reaches us, and we end it.
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: process.env.PATH, LC_ALL: "C" },
      ...serverUser(),
    });
    onSpawn(child);
    let log = "";
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (chunk: string) => {
      log = (log + chunk).slice(-LOG_KEPT);
      if (ready.test(log)) resolve(child);
    });
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      reject(new Error(`${file} ended before it was ready (${signal ?? code}):\n${log}`));
    });
  });
}

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Resolves once the process has ended, at once if it has. */
export function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (hasEnded(child)) resolve();
    else child.once("exit", () => resolve());
  });
}

/** SIGKILL for a process and its children at once, as when the machine fails: nobody gets to clean up. */
export async function killFamily(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const pid = child.pid!;
  // Stopped first, so that it cannot start another child while we look.
  process.kill(pid, "SIGSTOP");
  for (const one of [...childrenOf(pid), pid]) {
    try {
      process.kill(one, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
  await ended(child);
}

function childrenOf(parent: number): number[] {
  return processes().flatMap(({ pid, ppid }) => (ppid === parent ? [pid] : []));
}

function processes(): { pid: number; ppid: number }[] {
  if (process.platform !== "linux") {
    const { stdout } = spawnSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" });
    return stdout.split("\n").map((line) => {
      const [pid, ppid] = line.trim().split(/\s+/).map(Number);
      return { pid: pid ?? 0, ppid: ppid ?? 0 };
    });
  }
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), ppid: parentOf(name) }));
}

function parentOf(pid: string): number {
  try {
    // "pid (name) state ppid …": the name may hold anything, so read from its last bracket.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return 0; // It ended while we looked.
  }
}
