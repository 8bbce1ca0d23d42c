/** Which process is which: a process id alone is used again, by other processes and in other containers. */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface Holder {
  readonly pid: number;
  /** When it started, as the system says it; null where it does not. */
  readonly started: string | null;
  readonly host: string;
  /** This start of the machine; null where it has no name. */
  readonly boot: string | null;
  /** The container's own count of processes; null where there are no containers. */
  readonly namespace: string | null;
}

export function thisProcess(): Holder {
  return {
    pid: process.pid,
    started: startOf(process.pid),
    host: hostname(),
    boot: attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    namespace: attempt(() => readlinkSync("/proc/self/ns/pid")),
  };
}

/** `unknown` where it cannot be seen from here. */
export function liveness(holder: Holder): "alive" | "dead" | "unknown" {
  const here = thisProcess();
  if (holder.host === here.host && holder.boot !== here.boot) return "dead"; // The machine was started anew.
  if (holder.boot !== here.boot || holder.namespace !== here.namespace) return "unknown";
  if (holder.boot === null && holder.host !== here.host) return "unknown";
  if (!exists(holder.pid)) return "dead";
  const started = startOf(holder.pid);
  if (started === "zombie") return "dead";
  return started !== null && holder.started !== null && started !== holder.started ? "dead" : "alive";
}

export function isHolder(value: unknown): value is Holder {
  if (typeof value !== "object" || value === null) return false;
  const { pid, host } = value as Partial<Holder>;
  return Number.isSafeInteger(pid) && pid! > 0 && typeof host === "string";
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH"; // EPERM: it is somebody else's.
  }
}

function startOf(pid: number): string | null {
  if (process.platform === "win32") return null;
  if (process.platform !== "linux") {
    return attempt(() =>
      execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim(),
    );
  }
  return attempt(() => {
    // Fields after the name in parentheses, which may hold spaces and parentheses itself: the 3rd is the state.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    // Dead, but its parent has not asked for it yet; in a container without an init process, for ever.
    if (fields[0] === "Z" || fields[0] === "X") return "zombie";
    return fields[22 - 3] ?? null;
  });
}

function attempt<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
