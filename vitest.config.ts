import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/global.ts"],
    reporters: ["default", "./test/support/reporter.ts"],
    allowOnly: false,
    // Handlers fail here on purpose, and nobody observes: what is said of that would bury what the tests say.
    onConsoleLog: (line, type) => type !== "stderr" || !line.startsWith("onceward: "),
    // Real databases start and stop in these tests; the limits are for hangs, not for speed.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    // The embedded Postgres is WebAssembly: optimising it takes more than the short lives of these processes gain by it.
    // And collecting garbage side by side takes more of few cores than doing it alone, and less often.
    execArgv: ["--liftoff-only", "--single-threaded-gc", "--max-semi-space-size=32"],
    // One more than the smallest machine has cores: many tests wait for a process or for a lease.
    maxWorkers: 3,
  },
});
