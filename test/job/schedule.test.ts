import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Ticks } from "../../src/job/cron.ts";
import { schedule, type ScheduleOptions, type TickTools } from "../../src/job/schedule.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { type FreshDatabase, freshDatabase, needs } from "../support/postgres.ts";
import { countOf, Watcher } from "../worker/support.ts";
import { type JobEngine, jobEngine } from "./support.ts";

describe("a schedule", () => {
  beforeEach(needs.postgres);
  const open: JobEngine[] = [];
  let database: FreshDatabase;
  let clock: Clock;
  /** What ran, in all processes, as times. */
  let ticks: string[];
  let watcher: Watcher;

  beforeEach(async () => {
    database = await freshDatabase();
    const first = jobEngine(database.url);
    await first.engine.ready();
    clock = await fakeClock(first.engine.database);
    await clock.freeze();
    open.push(first);
    ticks = [];
    watcher = new Watcher();
  });
  afterEach(async () => {
    vi.useRealTimers();
    for (const one of open.splice(0)) await one.close();
    await database.drop();
  });

  /** A process with one schedule. */
  const start = async (
    options: ScheduleOptions,
    fn: (tools: TickTools) => unknown = () => undefined,
  ): Promise<JobEngine> => {
    const made = jobEngine(database.url, { pollMs: 10 });
    open.push(made);
    schedule(made.engine, "report", options, async (tools) => {
      await fn(tools);
      ticks.push(tools.tick.toISOString());
      watcher.tell();
    });
    await made.engine.start();
    return made;
  };
  /** Sets the database's clock, once nothing runs: else what runs would outlive its lease. */
  const goTo = async (time: string): Promise<void> => {
    while ((await countOf(open[0]!.watch.database, "state = 'running'")) > 0) await new Promise(setImmediate);
    await clock.advance(Date.parse(time) - (await clock.now()));
  };
  const ran = (count: number): Promise<void> => watcher.until(() => ticks.length >= count);
  const finished = async (one: JobEngine, count: number): Promise<void> => {
    while ((await countOf(one.watch.database, "state = 'done'")) < count) await new Promise(setImmediate);
  };
  const nightly: ScheduleOptions = { cron: "0 3 * * *" };

  it("runs each tick once, however many processes there are", async () => {
    await goTo("2026-11-01T02:59:00Z");
    const engines = await Promise.all([start(nightly), start(nightly), start(nightly)]);
    for (let day = 1; day <= 5; day++) {
      await goTo(`2026-11-0${day}T03:00:00Z`);
      await ran(day);
      // The next one is written down before this one runs.
      expect(await countOf(engines[0].watch.database, "state = 'waiting'")).toBe(1);
    }
    expect(ticks).toEqual([1, 2, 3, 4, 5].map((day) => `2026-11-0${day}T03:00:00.000Z`));
    await finished(engines[0], 5);
    // A process is told a moment after the ledger.
    await expect.poll(() => engines.flatMap(({ history }) => history.ran)).toHaveLength(5);
  });

  it("goes by the database's clock, whatever the process thinks", async () => {
    await goTo("2041-05-06T02:00:00Z");
    await start(nightly);
    await goTo("2041-05-06T03:00:00Z");
    await ran(1);
    expect(ticks).toEqual(["2041-05-06T03:00:00.000Z"]);
  });

  it("goes by the clocks of its time zone, over the days on which they are set", async () => {
    await goTo("2026-10-24T00:00:00Z");
    await start({ cron: "30 2 * * *", timezone: "Europe/Berlin" });
    const expected = ["2026-10-24T00:30:00.000Z", "2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"];
    for (const [i, tick] of expected.entries()) {
      await goTo(tick);
      await ran(i + 1);
    }
    expect(ticks).toEqual(expected);
  });

  describe("whose ticks came while no process ran", () => {
    const sleepOver = async (missed: ScheduleOptions["missed"]): Promise<JobEngine> => {
      await goTo("2026-11-01T02:00:00Z");
      const before = await start({ ...nightly, missed });
      await before.close();
      await goTo("2026-11-04T09:00:00Z");
      return start({ ...nightly, missed });
    };

    it("makes up the latest", async () => {
      const one = await sleepOver(undefined);
      await ran(1);
      await goTo("2026-11-05T03:00:00Z");
      await ran(2);
      expect(ticks).toEqual(["2026-11-04T03:00:00.000Z", "2026-11-05T03:00:00.000Z"]);
      const skipped = await one.engine.ledger.verbs.look({
        scope: "job/report",
        key: "2026-11-01T03:00:00.000Z",
      });
      expect(skipped).toMatchObject({ state: "done", result: expect.stringContaining("missed") });
    });

    it("makes up all of them", async () => {
      await sleepOver("all");
      await ran(4);
      expect(ticks.toSorted()).toEqual([1, 2, 3, 4].map((day) => `2026-11-0${day}T03:00:00.000Z`));
    });

    it("makes up none, and goes on with the next", async () => {
      const one = await sleepOver("skip");
      await finished(one, 1);
      await goTo("2026-11-05T03:00:00Z");
      await ran(1);
      expect(ticks).toEqual(["2026-11-05T03:00:00.000Z"]);
    });

    it("has missed nothing that started a little late", async () => {
      await goTo("2026-11-01T02:00:00Z");
      await (await start({ ...nightly, missed: "skip" })).close();
      await goTo("2026-11-01T03:00:30Z");
      await start({ ...nightly, missed: "skip" });
      await ran(1);
      expect(ticks).toEqual(["2026-11-01T03:00:00.000Z"]);
    });
  });

  describe("that is changed", () => {
    it("does not run what only the old one had, and runs what both have once", async () => {
      await goTo("2026-11-01T02:00:00Z");
      await (await start({ cron: "0 3,6 * * *" })).close();
      const one = await start({ cron: "0 5,6 * * *" });
      await goTo("2026-11-01T03:00:00Z");
      await finished(one, 1);
      await goTo("2026-11-01T05:00:00Z");
      await ran(1);
      await goTo("2026-11-01T06:00:00Z");
      await ran(2);
      expect(ticks).toEqual(["2026-11-01T05:00:00.000Z", "2026-11-01T06:00:00.000Z"]);
    });

    it("and changed back runs as at first", async () => {
      await goTo("2026-11-01T02:00:00Z");
      await (await start(nightly)).close();
      await (await start({ cron: "0 5 * * *" })).close();
      await start(nightly);
      await goTo("2026-11-01T03:00:00Z");
      await ran(1);
      expect(ticks).toEqual(["2026-11-01T03:00:00.000Z"]);
    });

    it("is followed by processes that do not know of the change yet", async () => {
      await goTo("2026-11-01T02:00:00Z");
      const old = await start(nightly);
      await (await start({ cron: "0 5 * * *" })).close();
      await goTo("2026-11-01T03:00:00Z");
      await finished(old, 1);
      await goTo("2026-11-01T05:00:00Z");
      await ran(1);
      await goTo("2026-11-02T05:00:00Z");
      await ran(2);
      expect(ticks).toEqual(["2026-11-01T05:00:00.000Z", "2026-11-02T05:00:00.000Z"]);
    });
  });

  it("goes on after a tick that fails, is dead, or was cancelled", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    await goTo("2026-11-01T02:00:00Z");
    const one = await start({ ...nightly, maxAttempts: 1 }, ({ tick }) => {
      if (tick.getUTCDate() === 1) throw new Error("no");
    });
    await goTo("2026-11-01T03:00:00Z");
    await one.history.ended(1);
    await goTo("2026-11-02T03:00:00Z");
    await ran(1);
    await one.engine.ledger.verbs.cancel({ scope: "job/report", key: "2026-11-03T03:00:00.000Z" });
    await goTo("2026-11-03T12:00:00Z");
    // Every half minute the next tick is made sure of.
    const recorded = one.watch.count("record_call");
    await vi.advanceTimersByTimeAsync(30_000);
    await one.watch.sentTimes("record_call", recorded + 1);
    await goTo("2026-11-04T03:00:00Z");
    await ran(2);
    expect(ticks).toEqual(["2026-11-02T03:00:00.000Z", "2026-11-04T03:00:00.000Z"]);
  });

  it("ticks every second where it is told so", async () => {
    const one = jobEngine(database.url, { pollMs: 60_000 });
    open.push(one);
    // The real clock: what is recorded is also looked for when it is due, and not at the next poll.
    await one.engine.database.query(
      "create or replace function onceward.now() returns timestamptz language sql volatile as 'select clock_timestamp()'",
    );
    schedule(one.engine, "often", { cron: "* * * * * *" }, ({ tick }) => {
      ticks.push(tick.toISOString());
      watcher.tell();
    });
    await one.engine.start();
    await ran(2);
    expect(new Set(ticks).size).toBe(ticks.length);
  });

  it.each([
    ["no cron expression", { cron: "nightly" }],
    ["a time zone that is none", { cron: "0 3 * * *", timezone: "Mars/Base" }],
    ["a day that never comes", { cron: "0 0 30 2 *" }],
    ["another word for what was missed", { cron: "0 3 * * *", missed: "some" as "all" }],
  ])("is refused with %s", async (_what, options) => {
    const one = jobEngine(database.url);
    open.push(one);
    expect(() => schedule(one.engine, "bad", options, () => undefined)).toThrow(
      expect.objectContaining({ code: "config_invalid" }),
    );
  });
});

describe("ticks", () => {
  const walk = (cron: string, timezone: string, from: string, count: number): Date[] => {
    const ticks = new Ticks({ cron, timezone });
    const found: Date[] = [];
    for (let at = new Date(from); found.length < count; found.push(at)) at = ticks.next(at);
    return found;
  };

  it.each([
    ["30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z"],
    ["30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z"],
    ["*/20 * * * *", "America/New_York", "2026-03-08T05:00:00Z"],
    ["*/20 * * * *", "America/New_York", "2026-11-01T04:00:00Z"],
    ["0 0 * * *", "America/Sao_Paulo", "2026-02-20T00:00:00Z"],
    ["15 1 * * *", "Australia/Lord_Howe", "2026-04-03T00:00:00Z"],
    ["0 9 29 2 *", "Asia/Kathmandu", "2026-01-01T00:00:00Z"],
  ])("of %s in %s from %s are told from other times, and follow each other", (cron, timezone, from) => {
    const ticks = new Ticks({ cron, timezone });
    const found = walk(cron, timezone, from, 40);
    for (const [i, tick] of found.entries()) {
      expect(ticks.has(tick)).toBe(true);
      expect(ticks.has(new Date(tick.getTime() + 1_000))).toBe(false);
      expect(ticks.latest(tick)).toEqual(tick);
      expect(ticks.latest(new Date(tick.getTime() + 999))).toEqual(tick);
      if (i > 0) expect(ticks.latest(new Date(tick.getTime() - 1))).toEqual(found[i - 1]);
    }
  });

  it("come once on a day with 23 hours, and once on a day with 25", () => {
    const days = (from: string): string[] =>
      walk("30 2 * * *", "Europe/Berlin", from, 3).map((tick) => tick.toISOString());
    expect(days("2026-03-28T00:00:00Z")).toEqual([
      "2026-03-28T01:30:00.000Z",
      "2026-03-29T01:00:00.000Z",
      "2026-03-30T00:30:00.000Z",
    ]);
    expect(days("2026-10-24T00:00:00Z")).toEqual([
      "2026-10-24T00:30:00.000Z",
      "2026-10-25T00:30:00.000Z",
      "2026-10-26T01:30:00.000Z",
    ]);
  });
});
