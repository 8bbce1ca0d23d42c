import { describe, expect, it } from "vitest";
import { Metrics } from "../../src/cli/metrics.ts";
import type { LedgerStats } from "../../src/ledger/lane.ts";
import type { Attempted } from "../../src/observe.ts";
import type { Receipt } from "../../src/receive/receiver.ts";

const receipt = { source: "stripe", outcome: "accepted", status: 200, ms: 3, key: "evt_1" } as Receipt;
const attempted = { scope: "job/mail", lane: "job/mail", key: "k", type: null, attempt: 1 } as Attempted;
const nothing = { unfinished: [], parked: [] } as unknown as LedgerStats;

/** The series of a name, without comments. */
const lines = (text: string, name: string): string[] =>
  text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));

describe("the figures of a process", () => {
  it("count deliveries and attempts by outcome", () => {
    const metrics = new Metrics();
    metrics.received(receipt);
    metrics.received(receipt);
    metrics.received({ ...receipt, outcome: "duplicate" } as Receipt);
    metrics.attempted({ ...attempted, outcome: "done", ms: 5 } as Attempted);
    metrics.attempted({ ...attempted, outcome: "failed", state: "dead", ms: 5 } as Attempted);
    const text = metrics.text(nothing);
    expect(lines(text, "onceward_deliveries_total")).toEqual([
      'onceward_deliveries_total{source="stripe",outcome="accepted"} 2',
      'onceward_deliveries_total{source="stripe",outcome="duplicate"} 1',
    ]);
    expect(lines(text, "onceward_attempts_total")).toEqual([
      'onceward_attempts_total{lane="job/mail",outcome="done"} 1',
      'onceward_attempts_total{lane="job/mail",outcome="failed_dead"} 1',
    ]);
    // No key, and so nobody's id, is a label.
    expect(text).not.toContain("evt_1");
  });

  it("measure durations in buckets that hold the ones below", () => {
    const metrics = new Metrics();
    for (const ms of [1, 40, 40, 1_000_000]) metrics.received({ ...receipt, ms });
    const text = metrics.text(nothing);
    const bucket = (le: string): string => `onceward_delivery_seconds_bucket{source="stripe",le="${le}"}`;
    expect(text).toContain(`${bucket("0.001")} 1\n`);
    expect(text).toContain(`${bucket("0.025")} 1\n`);
    expect(text).toContain(`${bucket("0.05")} 3\n`);
    expect(text).toContain(`${bucket("300")} 3\n`);
    expect(text).toContain(`${bucket("+Inf")} 4\n`);
    expect(text).toContain('onceward_delivery_seconds_count{source="stripe"} 4\n');
  });

  it("add up the tasks of a lane, and name its oldest", () => {
    const of = { due: 1, later: 2, running: 3, oldest_due_ms: 1_000, oldest_running_ms: null };
    const text = new Metrics().text({
      unfinished: [
        { scope: "stripe", ...of },
        { scope: "stripe/acct_1", ...of, oldest_due_ms: 5_000 },
      ],
      parked: [{ scope: "stripe", state: "dead", count: 4 }],
    } as unknown as LedgerStats);
    expect(lines(text, "onceward_tasks")).toEqual([
      'onceward_tasks{lane="stripe",state="due"} 2',
      'onceward_tasks{lane="stripe",state="later"} 4',
      'onceward_tasks{lane="stripe",state="running"} 6',
      'onceward_tasks{lane="stripe",state="dead"} 4',
    ]);
    expect(lines(text, "onceward_oldest_due_seconds")).toEqual([
      'onceward_oldest_due_seconds{lane="stripe"} 5',
    ]);
    expect(lines(text, "onceward_oldest_running_seconds")).toEqual([]);
  });

  it("have their names and types before anything has happened", () => {
    const text = new Metrics().text(nothing);
    expect(text.match(/^# TYPE onceward_\w+ (counter|gauge|histogram)$/gm)).toHaveLength(8);
    expect(text.endsWith("\n")).toBe(true);
  });
});
