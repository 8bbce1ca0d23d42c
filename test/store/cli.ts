/** The compiled command line, run as a process of its own. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

export const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
export const store = fileURLToPath(new URL("../../examples/store", import.meta.url));

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `onceward …` in a folder. Nothing of the environment of the tests but the path is in its way. */
export function onceward(
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env["PATH"], ...env }, timeout: 150_000 };
    execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : error ? -1 : 0;
      resolve({ code, stdout, stderr });
    });
  });
}
