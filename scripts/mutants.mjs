/**
 * Breaks the code on purpose, one way at a time, and sees whether the tests notice. Each mutant of
 * test/mutants/mutants.json is applied in a copy of this folder, where the tests that should catch it are run.
 * All of them: the table in docs/proof.md is written anew. `--only TEXT`: those with this text in their names,
 * and nothing is written. `--jobs N`: so many side by side.
 */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/** Of all workloads together: every schedule with one deviation, and some with two. */
const schedules = "1600";
/** Far more than any of these tests takes: a mutant that hangs is not caught. */
const longestMs = 15 * 60_000;
const leftOut = new Set(["node_modules", ".git", "dist", "bench"]);

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { values } = parseArgs({
  options: { only: { type: "string", default: "" }, jobs: { type: "string", default: "2" } },
});
const all = JSON.parse(readFileSync(join(root, "test/mutants/mutants.json"), "utf8"));
const waiting = all.filter(({ name }) => name.includes(values.only)).map((mutant, i) => ({ mutant, i }));
const results = Array.from({ length: waiting.length });

await Promise.all(Array.from({ length: Number(values.jobs) }, work));
const survivors = results.filter(({ caughtBy }) => caughtBy === undefined);
console.log(`${results.length - survivors.length} of ${results.length} mutants caught`);
if (values.only === "") writeTable();
if (survivors.length > 0) process.exitCode = 1;

async function work() {
  const folder = mkdtempSync(join(tmpdir(), "onceward-mutant-"));
  try {
    cpSync(root, folder, { recursive: true, filter: (from) => !leftOut.has(relative(root, from)) });
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const caughtBy = await trial(folder, next.mutant).catch((error) => console.error(error.message));
      results[next.i] = { mutant: next.mutant, caughtBy };
      console.log(
        `${caughtBy ? "caught  " : "SURVIVED"} ${next.mutant.name}${caughtBy ? `: ${caughtBy}` : ""}`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The test that failed, or undefined. One file after the other, the likeliest first. */
async function trial(folder, { name, file, find, replace, tests }) {
  const path = join(folder, file);
  const text = readFileSync(path, "utf8");
  if (text.split(find).length !== 2) throw new Error(`${name}: its text is not once in ${file}`);
  writeFileSync(
    path,
    text.replace(find, () => replace),
  );
  try {
    for (const test of tests) {
      const failed = await firstFailure(folder, test);
      if (failed) return failed;
    }
    return undefined;
  } finally {
    writeFileSync(path, text);
  }
}

async function firstFailure(folder, test) {
  const report = join(folder, "report.json");
  rmSync(report, { force: true });
  const vitest = join(folder, "node_modules/vitest/vitest.mjs");
  const args = [vitest, "run", test, "--bail=1", "--reporter=json", `--outputFile=${report}`];
  await new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: folder,
      stdio: "ignore",
      env: { ...process.env, ONCEWARD_SCHEDULES: schedules },
    });
    const timer = setTimeout(() => child.kill(), longestMs);
    child.once("exit", () => resolve(clearTimeout(timer)));
  });
  if (!existsSync(report)) throw new Error(`${test} did not come to an end`);
  const { testResults } = JSON.parse(readFileSync(report, "utf8"));
  // Only a test that ran and failed counts: a file that cannot be loaded proves nothing.
  const failed = testResults.flatMap((one) => one.assertionResults).find(({ status }) => status === "failed");
  if (!failed && testResults.some(({ status }) => status === "failed"))
    throw new Error(`${test} could not be run: ${testResults.map(({ message }) => message).join("\n")}`);
  return failed && `${failed.title} (${basename(test)})`;
}

function writeTable() {
  const path = join(root, "docs/proof.md");
  const rows = results.map(({ mutant, caughtBy }) => `| ${mutant.name} | ${caughtBy ?? "**nobody**"} |`);
  const table = ["| mutant | caught by |", "| --- | --- |", ...rows].join("\n");
  const text = readFileSync(path, "utf8");
  writeFileSync(
    path,
    text.replace(
      /(<!-- mutants -->\n)[\s\S]*(<!-- end of mutants -->)/,
      (_, start, end) => `${start}\n${table}\n\n${end}`,
    ),
  );
}
