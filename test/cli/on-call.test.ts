/** The commands for whoever is on call: in this process, and a few as processes of their own. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Replayed } from "../../src/recover/replay.ts";
import type { Audited, Story } from "../../src/recover/story.ts";
import type { Stuck } from "../../src/recover/stuck.ts";
import { describeOnCall } from "../recover/support.ts";
import { answerOf, onceward, type Said } from "./command.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

describeOnCall("newest", "commands", (bench) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-cli-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const on = (...args: string[]): string[] => [...args, "--database", bench().url];

  beforeAll(async () => {
    if (bench() === undefined) return;
    const { once, addDead } = bench();
    const { ledger } = once.engine;
    await addDead("stripe", 150);
    await ledger.recordAndClaim({ scope: "stripe", key: "evt_done", type: "invoice.paid" });
    await ledger.complete({ scope: "stripe", key: "evt_done", attempt: 1, result: '"personal"' });
    await ledger.record({ scope: "stripe/#mail", key: "evt_done", type: "invoice.paid" });
    await ledger.record({ scope: "job/a", key: "escape \u001B[2J" });
    await ledger.record({ scope: "stripe", key: "evt_ignored", type: "invoice.paid", ignored: "no handler" });
    const charge = { scope: "job/charge", key: "order 1", attempt: 1 };
    await ledger.recordAndClaim(charge);
    await ledger.saveStep({ ...charge, name: "charge", state: "started" });
    await ledger.fail({ ...charge, reason: "timed out", retry: "unknown" });
    writeFileSync(
      join(folder, "onceward.config.mjs"),
      `import { createOnce, defineConfig } from ${JSON.stringify(join(root, "dist/index.js"))};
       import { stripe } from ${JSON.stringify(join(root, "dist/source/stripe.js"))};
       const once = createOnce({ database: process.env.TEST_DATABASE });
       once.source(stripe({ secrets: "whsec_test" })).on("invoice.paid", () => undefined);
       export default defineConfig({ once });`,
    );
  });

  it("status: a table for people, one JSON document for programs", async () => {
    const { code, stdout } = await onceward(on("status"));
    expect(code).toBe(0);
    expect(stdout).toMatch(/^scope +due +later +running +dead/);
    expect(stdout).toMatch(/^stripe +0 +0 +0 +150/m);
    expect(stdout).toContain("No worker has said hello");
    const status = await answerOf<{ scopes: { scope: string; done: number }[] }>(on("status", "--exact"));
    expect(status.scopes.find(({ scope }) => scope === "stripe")).toMatchObject({ done: 1 });
  });

  it("stuck: ends with 2 where something is, says what to do, and obeys no escape of a stranger's key", async () => {
    const { code, stdout } = await onceward(on("stuck", "--max", "2", "--older-than", "0s"));
    expect(code).toBe(2);
    expect(stdout).toContain("dead: mend the cause, then: onceward replay KEY");
    expect(stdout).toContain("unknown outcome: look in the provider");
    expect(stdout).toContain("escape \uFFFD[2J");
    expect(stdout).not.toContain("\u001B");
    const stuck = await answerOf<Stuck>(on("stuck", "--lane", "stripe"));
    expect(stuck.groups).toMatchObject([{ reason: "dead", scope: "stripe", count: 150 }]);
    expect(await onceward(on("stuck", "--lane", "none"))).toMatchObject({
      code: 0,
      stdout: "Nothing is stuck.\n",
    });
  });

  it("list: filters as options or as pairs", async () => {
    const keys = async (...args: string[]): Promise<string[]> =>
      (await answerOf<{ key: string }[]>(on("list", ...args))).map(({ key }) => key);
    expect(await keys("--state", "dead", "--error", "PRICE_150")).toEqual(["evt_150"]);
    expect(await keys("--where", "state=dead", "contains=evt_149")).toEqual(["evt_149"]);
    expect(await keys("--type", "invoice.*", "--since", "30m")).toEqual([
      "evt_ignored",
      "evt_done",
      "evt_done",
    ]);
    const { stderr, stdout } = await onceward(on("list", "--type", "none"));
    expect([stderr, stdout]).toEqual(["Of the last day; say --since for more.\n", "Nothing matches.\n"]);
    for (const wrong of [
      ["--state", "asleep"],
      ["--since", "yesterday"],
      ["--where", "color=red"],
      ["--max", "0"],
    ]) {
      const said = await onceward(on("list", ...wrong));
      expect(said).toMatchObject({ code: 1, stdout: "" });
      expect(said.stderr).toMatch(/^onceward: [^\n]+\n$/);
    }
  });

  it("show: every task of a key, without what its runs computed unless that is asked for", async () => {
    const { code, stdout } = await onceward(on("show", "evt_1"));
    expect(code).toBe(0);
    expect(stdout).toMatch(/^stripe evt_1\n/);
    expect(stdout).toContain("No such price: price_1");
    const stories = await answerOf<Story[]>(on("show", "evt_done"));
    expect(stories.map(({ scope, result }) => [scope, result])).toEqual([
      ["stripe", "…"],
      ["stripe/#mail", null],
    ]);
    expect((await onceward(on("show", "evt_done", "--scope", "stripe", "--rows"))).stdout).toContain(
      "Rows that it wrote\n  None that nobody has changed since.",
    );
    const [one] = await answerOf<Story[]>(on("show", "evt_done", "--scope", "stripe", "--values"));
    expect(one?.result).toBe('"personal"');
    expect((await onceward(on("show", "evt_none"))).stderr).toContain("known by type and object");
    expect(await onceward(on("show", "none"))).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "onceward: There is no task with the key none.\n",
    });
  });

  it("replay: by key, and says what it left alone", async () => {
    const { code, stdout } = await onceward(
      on("replay", "evt_1", "evt_done", "nowhere", "--actor", "ann", "--reason", "mended"),
    );
    expect(code).toBe(2); // One of them is nowhere.
    expect(stdout).toMatch(/stripe +evt_1 +replayed: it runs again/);
    expect(stdout).toMatch(/stripe +evt_done +done: left alone/);
    expect(stdout).toMatch(/nowhere +missing/);
    const again = await answerOf<Replayed[]>(on("replay", "evt_done", "--again"));
    expect(again).toEqual([{ scope: "stripe", key: "evt_done", outcome: "replayed again" }]);
    const audit = await answerOf<Audited[]>(on("audit", "--by", "ann"));
    expect(audit.find(({ key }) => key === "evt_1")).toMatchObject({ what: "replayed", reason: "mended" });
  });

  it("replay: by filter asks before it takes many, and changes nothing where nobody can be asked", async () => {
    const refused = await onceward(on("replay", "--where", "state=dead"));
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("This replays 149 tasks. Nothing was changed: say --yes");
    const state = "select count(*) from onceward.task where state = 'dead'";
    expect(await bench().count(state)).toBe(149);
    const done = await answerOf<{ total: number }>(
      on("replay", "--state", "dead", "--since", "2 hours", "--yes", "--rate", "all"),
    );
    expect(done).toMatchObject({ found: 149, total: 149 });
    expect(await bench().count(state)).toBe(0);
    expect(await answerOf(on("replay", "--state", "dead"))).toEqual({ found: 0, total: 0 });
    expect((await onceward(on("replay"))).stderr).toContain("Say which: keys, or filters");
    expect((await onceward(on("replay", "--resume", "nothing"))).code).toBe(1);
  });

  it("replay: with a configuration, also what was ignored and has a handler by now", async () => {
    const env = { TEST_DATABASE: bench().url, STRIPE_WEBHOOK_SECRET: "whsec_test" };
    const where = ["--where", "lane=stripe", "--config", folder];
    expect(await answerOf(["replay", ...where], env)).toMatchObject({ found: 1, total: 1 });
  });

  it("cancel: asks before it takes many", async () => {
    const keys = Array.from({ length: 101 }, (_, i) => `many ${i}`);
    for (const key of keys) await bench().once.engine.ledger.record({ scope: "job/many", key });
    const refused = await onceward(on("cancel", ...keys));
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("This cancels 101 tasks. Nothing was changed: say --yes");
    const state = "select count(*) from onceward.task where state = 'cancelled' and scope = 'job/many'";
    expect(await bench().count(state)).toBe(0);
    expect(await answerOf(on("cancel", "--yes", ...keys))).toHaveLength(101);
    expect(await bench().count(state)).toBe(101);
  });

  it("cancel and resolve, with the user and host as the actor", async () => {
    expect(await answerOf(on("cancel", "evt_2", "evt_2000"))).toMatchObject([
      { outcome: "cancelled" },
      { outcome: "missing" },
    ]);
    const resolve = on("resolve", "order 1", "--step", "charge");
    expect((await onceward(resolve)).stderr).toContain("Say either --done or --not-done.");
    expect(await onceward([...resolve, "--done", "--value", "{"])).toMatchObject({ code: 1 });
    expect(await answerOf([...resolve, "--done", "--value", '{"id": 1}'])).toMatchObject({
      outcome: "resolved",
    });
    expect((await onceward([...resolve, "--done"])).code).toBe(1);
    const [last] = await answerOf<Audited[]>(on("audit", "--what", "resolved"));
    expect(last).toMatchObject({ key: "order 1", detail: "step charge: done" });
    expect(last?.actor).toMatch(/.@./);
  });

  it("signal: says what the task waits for where it waits for something else", async () => {
    const { ledger } = bench().once.engine;
    const refund = { scope: "job/refund", key: "refund 7", attempt: 1 };
    await ledger.recordAndClaim(refund);
    const value = JSON.stringify({ fingerprint: "f1", of: { name: "Ada" } });
    await ledger.saveStep({ ...refund, name: "approved", state: "waiting", value });
    const { stdout } = await onceward(on("show", "refund 7"));
    expect(stdout).toMatch(/Waits in\n +step +fingerprint\n +approved +f1\n/);
    expect(stdout).not.toContain("Ada");
    expect(await onceward(on("signal", "refund 7", "aproved"))).toMatchObject({
      code: 2,
      stdout: "Kept for when refund 7 waits for aproved. Now it waits for approved.\n",
    });
    expect(await onceward(on("signal", "refund 7", "approved", "--fingerprint", "f1"))).toMatchObject({
      code: 0,
      stdout: "Sent; it goes on.\n",
    });
    expect((await onceward(on("signal", "evt_4", "approved"))).stdout).toContain("Now it waits for nothing.");
  });

  it("signal: an approval by a person, whose first word counts", async () => {
    const signal = on("signal", "evt_3", "approved", "--actor", "ann");
    expect(await answerOf(signal)).toMatchObject({ key: "evt_3", outcome: "sent" });
    expect((await onceward(signal)).stderr).toContain("the first word counts");
    expect((await onceward(on("signal", "nowhere", "approved"))).code).toBe(1);
    const [last] = await answerOf<Audited[]>(on("audit", "--what", "signal"));
    expect(last).toMatchObject({ actor: "ann", key: "evt_3", detail: "approved" });
  });

  it("say what is missing instead of making it", async () => {
    const nowhere = await onceward(["status", "--database", bench().url, "--schema", "other"]);
    expect(nowhere).toMatchObject({ code: 1, stdout: "" });
    expect(nowhere.stderr).toMatch(/holds no ledger.*\(schema_missing\)\n$/);
    const both = await onceward(on("status", "--config", folder));
    expect(both.stderr).toContain("--config and --database exclude each other");
  });

  describe("as processes", () => {
    const run = (args: string[], env: Record<string, string> = {}): Promise<Said> =>
      new Promise((resolve) => {
        const main = join(root, "dist/cli/main.js");
        const options = { cwd: folder, env: { ...process.env, ...env } };
        execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
          resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
        });
      });

    it("end with the code that they found, and say nothing but JSON on standard output", async () => {
      const [stuck, wrong] = await Promise.all([
        run(["stuck", "--json", "--database", bench().url, "--older-than", "0s"]),
        run(["list", "--state", "asleep", "--database", bench().url]),
      ]);
      expect(stuck.code).toBe(2);
      expect(JSON.parse(stuck.stdout)).toHaveProperty("groups");
      expect(wrong).toMatchObject({ code: 1, stdout: "" });
      expect(wrong.stderr).toMatch(/^onceward: There is no state "asleep"[^\n]*\n$/);
    });
  });
});
