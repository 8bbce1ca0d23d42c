import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";

it("ends the output with the count of tests", () => {
  const { lastLines, status } = run({ SAMPLE: "passing" });
  expect(lastLines(1)).toEqual(["1 passed, 0 failed"]);
  expect(status).toBe(0);
});

it("lists what was skipped, with the reason", () => {
  const { lastLines, status } = run({});
  expect(lastLines(2)).toEqual([
    "skipped: test/support/reporter-sample.ts > cannot run here: no such machine",
    "1 passed, 0 failed, 1 skipped",
  ]);
  expect(status).toBe(0);
});

it("fails a run that skipped a test where none may be skipped", () => {
  const { lastLines, status } = run({ ONCEWARD_NO_SKIPS: "1" });
  expect(lastLines(1)).toEqual(["1 passed, 0 failed, 1 skipped"]);
  expect(status).toBe(1);
});

it("counts tests whose setup failed as failed", () => {
  const { lastLines, status } = run({ SAMPLE: "failing" });
  expect(lastLines(5)).toEqual([
    "failed: test/support/reporter-sample.ts > fails: expected 1 to be 2 // Object.is equality",
    "failed: test/support/reporter-sample.ts > a suite that cannot start > is not run: no server",
    "failed: test/support/reporter-sample.ts > a suite that cannot start > is not run either: no server",
    "skipped: test/support/reporter-sample.ts > cannot run here: no such machine",
    "1 passed, 3 failed, 1 skipped",
  ]);
  expect(status).toBe(1);
});

it("counts a file that cannot be loaded as a failure", () => {
  const { lastLines, status } = run({ SAMPLE: "broken" });
  expect(lastLines(2)).toEqual([
    "failed: test/support/reporter-sample.ts: cannot be loaded",
    "0 passed, 1 failed",
  ]);
  expect(status).toBe(1);
});

function run(env: Record<string, string>) {
  const { SAMPLE: _, ONCEWARD_NO_SKIPS: __, ...inherited } = process.env;
  const args = [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--config",
    "test/support/reporter-sample.config.ts",
  ];
  const { stdout, status } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    env: { ...inherited, ...env },
  });
  return { status, lastLines: (count: number) => stdout.trimEnd().split("\n").slice(-count) };
}
