import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { describeWith } from "../support/postgres.ts";
import { program } from "../support/program.ts";
import type { Round } from "./flood.ts";

describeWith("newest", "memory", (database) => {
  it("stays flat however many jobs have run", { timeout: 300_000 }, async () => {
    const flood = await program(new URL("flood.ts", import.meta.url));
    const args = ["--expose-gc", flood, database().url, "19200", "6"];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const rounds = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Round);
    expect(rounds).toHaveLength(6);
    const kept = rounds.at(-1)!.heap - rounds[1]!.heap;
    const jobs = rounds.slice(2).reduce((sum, round) => sum + round.jobs, 0);
    // A job's payload alone has 3,000 bytes; 200 a job would be noise of the collector.
    expect(kept / jobs).toBeLessThan(200);
  });
});
