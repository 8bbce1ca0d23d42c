/** The programs of docs/jobs.md, run as they stand there: only the name of the package is replaced. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Job } from "../../src/job/job.ts";
import type { Once } from "../../src/once.ts";
import { describeWith } from "../support/postgres.ts";
import { countOf } from "../worker/support.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/jobs.md"), "utf8");

/** The first program under a heading. */
function programUnder(heading: string): string {
  const section = page.split(new RegExp(`^#+ ${heading}\n`, "m"))[1]!;
  const program = /```ts\n([^]*?)```/.exec(section)![1]!;
  return program.replaceAll('"onceward"', JSON.stringify(join(root, "src/index.ts")));
}

describeWith("newest", "the programs of docs/jobs.md", (database) => {
  // Beside the tests, so that it finds what they import.
  const folder = mkdtempSync(join(root, "test/job/.docs-"));
  let once: Once | undefined;
  beforeAll(() => void vi.stubEnv("DATABASE_URL", database().url));
  afterEach(async () => {
    await once?.stop();
    vi.restoreAllMocks();
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });
  const run = async <T>(heading: string): Promise<T & { once: Once }> => {
    const file = join(folder, `${heading.replaceAll(/\W/g, "-")}.ts`);
    writeFileSync(file, programUnder(heading));
    const program = (await import(file)) as T & { once: Once };
    once = program.once;
    return program;
  };
  const done = async (scope: string): Promise<void> => {
    while ((await countOf(once!.database, `scope = '${scope}' and state = 'done'`)) === 0)
      await new Promise(setImmediate);
  };

  it("send a download", async () => {
    const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
    await run("A job");
    await done("job/send-download");
    expect(log.mock.calls).toEqual([["mailed", "cs_1.pdf"]]);
  });

  it("check an input", async () => {
    const { welcome } = await run<{ welcome: Job<unknown> }>("Input");
    await once!.start();
    await expect(once!.enqueue(welcome, { user: "u_1" })).rejects.toMatchObject({ code: "input_invalid" });
    await once!.enqueue(welcome, { user: "u_1", at: new Date(0) });
    await done("job/welcome");
    const look = await once!.engine.ledger.verbs.look({ scope: "job/welcome", key: "u_1" });
    expect(look).toMatchObject({ result: '"u_1 since 1970"' });
  });

  it("remind once", async () => {
    const { first, again } = await run<{ first: unknown; again: unknown }>("Enqueue");
    expect(first).toEqual({ outcome: "enqueued", scope: "job/remind", key: "in_1" });
    expect(again).toEqual({ outcome: "duplicate", scope: "job/remind", key: "in_1" });
  });

  it("report every night", async () => {
    await run("Schedules");
    expect(await countOf(once!.database, "scope = 'job/nightly-report' and state = 'waiting'")).toBe(1);
  });

  it("stop when they are told to", async () => {
    await run("The worker");
    const stop = vi.spyOn(once!, "stop");
    process.emit("SIGTERM");
    expect(stop).toHaveBeenCalledTimes(1);
    await stop.mock.results[0]!.value;
    once = undefined;
  });
});

describe("docs/jobs.md", () => {
  it("names tests that exist", () => {
    const named = [...page.matchAll(/`(test\/[^`]+)`: ([^|…]+)/g)];
    expect(named.length).toBeGreaterThan(5);
    for (const [, file, title] of named) {
      expect(readFileSync(join(root, file!), "utf8")).toContain(title!.trim());
    }
    expect(readdirSync(join(root, "docs"))).toContain("jobs.md");
  });
});
