/** Runs commands of `onceward` in this process: starting one for each would take most of the time of its test. */
import { vi } from "vitest";
import { reportFailure } from "../../src/cli/fail.ts";
import { makeProgram } from "../../src/cli/program.ts";

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** As a shell would: what it says, and the code that it ends with. One at a time. */
export async function onceward(args: readonly string[], env: Record<string, string> = {}): Promise<Said> {
  const said = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((chunk) => {
      said[stream] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
      return true;
    }),
  );
  const error = vi.spyOn(console, "error").mockImplementation((text) => void (said.stderr += `${text}\n`));
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    process.exitCode = undefined;
    await makeProgram()
      .exitOverride()
      .parseAsync(["node", "onceward", ...args])
      .catch((thrown: unknown) => reportFailure(thrown, false));
    return { ...said, code: Number(process.exitCode ?? 0) };
  } finally {
    process.exitCode = undefined;
    vi.unstubAllEnvs();
    for (const spy of [...spies, error]) spy.mockRestore();
  }
}

/** The JSON document that a command answered with. */
export async function answerOf<T>(args: readonly string[], env: Record<string, string> = {}): Promise<T> {
  const { stdout, stderr } = await onceward([...args, "--json"], env);
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as T;
}
