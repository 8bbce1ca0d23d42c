/**
 * Ends the output with one plain line, `N passed, N failed` and `, N skipped` if any were, after a list of
 * what failed and what was skipped, and why. With ONCEWARD_NO_SKIPS=1 a skipped test fails the run: a machine that is to
 * run everything must not pass by running less.
 */
import { writeSync } from "node:fs";
import type { Reporter, SerializedError, TestCase, TestModule, TestSuite, Vitest } from "vitest/node";

type Outcome = "passed" | "failed" | "skipped" | "left out";

export default class CountReporter implements Reporter {
  #filtered = false;
  #modules: readonly TestModule[] = [];
  #uncaught: readonly SerializedError[] = [];

  onInit(vitest: Vitest): void {
    this.#filtered = vitest.config.testNamePattern !== undefined;
    // At exit, since others still print after the run has ended: summaries, and servers being stopped.
    if (!vitest.config.watch) process.once("exit", () => this.#print());
  }

  onTestRunEnd(modules: readonly TestModule[], uncaught: readonly SerializedError[]): void {
    this.#modules = modules;
    this.#uncaught = uncaught;
  }

  #print(): void {
    const counts: Record<Outcome, number> = { passed: 0, failed: 0, skipped: 0, "left out": 0 };
    const lines: string[] = [];
    for (const module of this.#modules) {
      const broken = brokenOutsideTests(module);
      counts.failed += broken.length;
      for (const one of broken) lines.push(`failed: ${module.relativeModuleId}: ${firstOf(one.errors())}`);
      for (const test of module.children.allTests()) {
        const outcome = this.#outcome(test);
        counts[outcome]++;
        if (outcome === "failed")
          lines.push(`failed: ${module.relativeModuleId} > ${test.fullName}: ${firstOf(errorsOf(test))}`);
        if (outcome === "skipped")
          lines.push(`skipped: ${module.relativeModuleId} > ${test.fullName}: ${reason(test)}`);
      }
    }
    // They count as failures: vitest ends with an error because of them.
    counts.failed += this.#uncaught.length;
    for (const error of this.#uncaught) lines.push(`uncaught: ${firstOf([error])}`);
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    lines.push(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
    writeSync(1, `${lines.join("\n")}\n`);
    if (counts.failed > 0 || (counts.skipped > 0 && process.env.ONCEWARD_NO_SKIPS === "1"))
      process.exitCode ||= 1;
  }

  #outcome(test: TestCase): Outcome {
    const result = test.result();
    if (result.state === "passed" || result.state === "failed") return result.state;
    // A failed beforeAll leaves its tests "skipped": they were to run, and did not.
    if (isBroken(test.parent)) return "failed";
    if (result.state === "skipped" && result.note === undefined && this.#filtered) return "left out";
    return "skipped";
  }
}

function reason(test: TestCase): string {
  const result = test.result();
  if (result.state === "skipped") return result.note ?? "no reason given";
  return "the run ended before it";
}

/** The first line of the first message; the rest stands further up. */
function firstOf(errors: readonly SerializedError[]): string {
  return (errors[0]?.message ?? "no message").split("\n", 1)[0]!;
}

function errorsOf(test: TestCase): readonly SerializedError[] {
  const { errors } = test.result();
  return errors && errors.length > 0 ? errors : suiteErrors(test.parent);
}

function suiteErrors(parent: TestModule | TestSuite): readonly SerializedError[] {
  const errors = parent.errors();
  return errors.length > 0 || parent.type === "module" ? errors : suiteErrors(parent.parent);
}

function isBroken(parent: TestModule | TestSuite): boolean {
  return parent.errors().length > 0 || (parent.type === "suite" && isBroken(parent.parent));
}

/** Files and suites that failed outside their tests count as one failure each, where no test in them does. */
function brokenOutsideTests(module: TestModule): (TestModule | TestSuite)[] {
  return [module, ...module.children.allSuites()].filter(
    (one) =>
      one.errors().length > 0 && ![...one.children.allTests()].some((test) => !test.ok() || isSkipped(test)),
  );
}

function isSkipped(test: TestCase): boolean {
  return test.result().state === "skipped";
}
