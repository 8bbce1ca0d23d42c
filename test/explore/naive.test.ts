import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../ledger/support.ts";
import { describeWith } from "../support/postgres.ts";
import { explore, type ExploreOptions } from "./explore.ts";
import { LiveDatabase } from "./live.ts";
import { answerWhileRunning } from "./naive/answer-while-running.ts";
import { claimThenSend } from "./naive/claim-then-send.ts";
import { insertAndCatch } from "./naive/insert-and-catch.ts";
import { selectThenInsert } from "./naive/select-then-insert.ts";
import { lookThenMove, moveByStateAlone } from "./naive/machine.ts";
import { takeoverByAge } from "./naive/takeover-by-age.ts";
import { type NaiveWay, naively } from "./naive/way.ts";
import type { Workload } from "./scene.ts";
import { appSchema } from "./schema.ts";
import { explain } from "./suite.ts";
import { heats, hot } from "./workloads/hot.ts";
import { moves } from "./workloads/moves.ts";

describeWith("newest", "the explorer finds the holes of the naive ways", (database) => {
  let live: LiveDatabase | undefined;
  beforeAll(async () => {
    const url = urlOf(database);
    if (url !== undefined) live = await LiveDatabase.open(url, appSchema);
  });
  afterAll(() => live?.close());

  /** The smallest failing schedule, line by line, without step numbers and times. */
  async function hole(way: NaiveWay): Promise<string[]> {
    return holeIn(naively(way));
  }

  async function holeIn(workload: Workload, options: Partial<ExploreOptions> = {}): Promise<string[]> {
    const { failure } = await explore(workload, { live: live!, depth: 3, ...options });
    if (!failure) throw new Error(`no hole found in: ${workload.name}`);
    const text = await explain(workload, live!, failure);
    return text.split("\n").map((line) => line.replace(/^ *\d+ +\d+ s +/, "").replace(/ +/g, " "));
  }

  it("select, then insert: two who look at once both handle it", async () => {
    const lines = await hole(selectThenInsert);
    expect(lines).toContain("I2: evt_1 was handled 2 times");
    expect(lines).toContain("A select state from app.seen where id = $1 | evt_1 → nothing");
    expect(lines).toContain("B select state from app.seen where id = $1 | evt_1 → nothing");
    expect(lines.filter((line) => line.includes("⇄"))).toHaveLength(1);
    expect(lines.length).toBeLessThanOrEqual(12);
  });

  it("insert first, and catch 23505: the retry after a crash is told 200", async () => {
    const lines = await hole(insertAndCatch);
    expect(lines.slice(1)).toEqual([
      "I1: evt_1 was answered with 200 and never handled",
      "",
      "delivery 1 of evt_1 (to A)",
      "A insert into app.seen (id, state) values ($1, 'seen') | evt_1 → 1 row(s) ✗ it dies right after this",
      "delivery 2 of evt_1 (to B)",
      "B insert into app.seen (id, state) values ($1, 'seen') | evt_1 → error 23505",
    ]);
  });

  it("answer 200 while another one runs: it dies, and nobody comes back", async () => {
    const lines = await hole(answerWhileRunning);
    expect(lines).toContain("I1: evt_1 was answered with 200 and never handled");
    expect(lines.filter((line) => line.includes("✗"))).toEqual([
      expect.stringMatching(/^A insert into app.seen .* → 1 row\(s\) ✗ it dies right after this$/),
    ]);
    expect(lines.length).toBeLessThanOrEqual(7);
  });

  it("take over by age without compare-and-set: two find it old, and both take it", async () => {
    const lines = await hole(takeoverByAge);
    expect(lines).toContain("I2: evt_1 was handled 2 times");
    expect(lines.filter((line) => line.includes("✗"))).toHaveLength(1);
    expect(lines.filter((line) => line.includes("⇄"))).toHaveLength(1);
    expect(lines.filter((line) => line.includes("update app.seen set started_at"))).toHaveLength(2);
    expect(lines.length).toBeLessThanOrEqual(19);
  });

  it("claim, then send: who dies after sending leaves a mail that is sent again", async () => {
    const lines = await hole(claimThenSend);
    expect(lines).toContain("I3: 2 mails were sent for evt_1");
    expect(lines).toContain(
      'A mailer: mail for evt_1 → "receipt of mail for evt_1" ✗ it dies right after this',
    );
    expect(lines).toContain('B mailer: mail for evt_1 → "receipt of mail for evt_1"');
    expect(lines.length).toBeLessThanOrEqual(17);
  });

  it("look at the state, then move: a payment brings back what was canceled meanwhile", async () => {
    const lines = await holeIn(moves({ by: "events", within: lookThenMove, faults: [] }) as Workload);
    expect(lines).toContain("I2: pay moved sub_1 from canceled to active");
    expect(lines.filter((line) => line.includes("⇄"))).toHaveLength(1);
  });

  it("let a timer look at the state alone: one that was cancelled moves what has come back to it", async () => {
    const workload = moves({ by: "events", within: moveByStateAlone, faults: [] }) as Workload;
    const lines = await holeIn(workload, { budget: 500 });
    expect(lines).toContainEqual(
      expect.stringMatching(/^I4: the timer .* sub_1 v1 cancel .* moved its subject; it was cancelled/),
    );
    expect(lines.filter((line) => line.includes("⇄"))).toHaveLength(2);
  });

  it("put all into one serial group: whoever comes behind a stuck one waits for ever", async () => {
    const heat = { ...heats[0]!, options: { serial: () => "group" }, tasks: 1 };
    const lines = await holeIn({ ...hot(heat), faults: [] } as Workload, { depth: 0 });
    expect(lines).toContain("I10: job/hot beside is waiting, left behind a hot key");
  });
});
