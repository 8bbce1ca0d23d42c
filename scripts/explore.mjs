/**
 * Plays many schedules of crashes, pauses, lost answers and interleavings: a million, or `--schedules N`.
 * `--seed N` plays another sample of those that are too many to play them all; `--workload TEXT` only the workloads
 * with this text in their names. See docs/proof.md.
 */
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
    workload: { type: "string" },
  },
});
for (const name of ["schedules", "seed"]) {
  if (!/^[1-9]\d*$/.test(values[name])) {
    console.error(`--${name} wants a whole number above 0, not "${values[name]}".`);
    process.exit(1);
  }
}
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const only = values.workload ? ["--testNamePattern", values.workload.replaceAll(/[^\w ]/g, ".")] : [];
const child = spawn(
  process.execPath,
  [vitest, "run", "test/explore", "--exclude", "test/explore/{naive,explorer}.test.ts", ...only],
  {
    cwd: root,
    stdio: "inherit",
    env: {
      ...process.env,
      ONCEWARD_SCHEDULES: values.schedules,
      ONCEWARD_SEED: values.seed,
      ONCEWARD_PROGRESS: "1",
    },
  },
);
child.once("exit", (code) => (process.exitCode = code ?? 1));
