import { describe, expect, it } from "vitest";
import { pruneRules } from "../../src/recover/retention.ts";

const day = 86_400_000;

describe("a retention", () => {
  it("left out: payloads after 90 days, keys after 400, effect keys, moves and the audit never", () => {
    expect(pruneRules()).toEqual([
      { what: "payloads", olderThanMs: 90 * day, states: ["done", "ignored", "cancelled"] },
      { what: "steps", olderThanMs: 90 * day, states: ["done", "ignored", "cancelled", "dead", "unknown"] },
      { what: "keys", olderThanMs: 400 * day, states: ["done", "ignored", "cancelled", "dead"] },
      { what: "log", olderThanMs: 90 * day },
    ]);
  });

  it("refuses keys below 35 days, for every lane and state, unless that is overridden", () => {
    const few = [
      { keys: "34 days" },
      { effects: "34 days" },
      { states: { done: { keys: "1 day" } } },
      { lanes: { stripe: { keys: "1 day" } } },
      { lanes: { stripe: { states: { unknown: { keys: 0 } } } } },
    ];
    for (const retention of few) {
      expect(() => pruneRules(retention)).toThrow("35 days");
      expect(pruneRules({ ...retention, override: true })).toContainEqual(
        expect.objectContaining({ override: true }),
      );
    }
    expect(pruneRules({ keys: "35 days" })).toContainEqual(
      expect.objectContaining({ what: "keys", olderThanMs: 35 * day }),
    );
  });

  it("has rules by lane and by state, of which the nearest counts", () => {
    const retention = {
      payloads: "60 days",
      steps: "forever",
      keys: "forever",
      log: "forever",
      states: { dead: { payloads: "200 days" } },
      lanes: {
        stripe: { payloads: "30 days", states: { ignored: { payloads: "1 day" } } },
        "stripe/acct_1": { payloads: "forever" },
      },
    };
    const lanes = ["stripe", "stripe/acct_1"];
    expect(pruneRules(retention)).toEqual([
      {
        what: "payloads",
        olderThanMs: 60 * day,
        states: ["done", "ignored", "cancelled"],
        exceptLanes: lanes,
      },
      { what: "payloads", olderThanMs: 200 * day, states: ["dead"], exceptLanes: lanes },
      {
        what: "payloads",
        olderThanMs: 30 * day,
        states: ["done", "cancelled"],
        lane: "stripe",
        exceptLanes: ["stripe/acct_1"],
      },
      {
        what: "payloads",
        olderThanMs: day,
        states: ["ignored"],
        lane: "stripe",
        exceptLanes: ["stripe/acct_1"],
      },
      {
        what: "payloads",
        olderThanMs: 200 * day,
        states: ["dead"],
        lane: "stripe",
        exceptLanes: ["stripe/acct_1"],
      },
      { what: "payloads", olderThanMs: 200 * day, states: ["dead"], lane: "stripe/acct_1" },
    ]);
  });

  it("for one lane is what holds for that lane, with chosen keys only where it names them", () => {
    expect(pruneRules({ steps: "forever" }, "job/mail")).toEqual([
      {
        what: "payloads",
        olderThanMs: 90 * day,
        states: ["done", "ignored", "cancelled"],
        lane: "job/mail",
      },
      {
        what: "keys",
        olderThanMs: 400 * day,
        states: ["done", "ignored", "cancelled", "dead"],
        lane: "job/mail",
      },
    ]);
    const named = { payloads: "forever", steps: "forever", lanes: { job: { keys: "40 days" } } };
    expect(pruneRules(named, "job/mail")).toEqual([
      {
        what: "keys",
        olderThanMs: 40 * day,
        states: ["done", "ignored", "cancelled", "dead"],
        lane: "job/mail",
        chosen: true,
      },
    ]);
  });

  it("says which duration it cannot read", () => {
    expect(() => pruneRules({ log: "a while" })).toThrow('log is a duration such as "90 days", or "forever"');
  });
});
