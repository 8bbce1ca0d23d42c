import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimDue, freshLane, keysOf, minute, stateOf } from "../support.ts";

export function recordSuite(suite: () => Suite): void {
  it("writes a task down once", async () => {
    const { ledger, bench } = suite();
    const scope = freshLane();
    expect(await ledger.record({ scope, key: "k" })).toEqual({ outcome: "recorded" });
    expect(await ledger.record({ scope, key: "k" })).toEqual({ outcome: "duplicate", state: "waiting" });
    expect(await stateOf(bench, scope, "k")).toBe("waiting");
  });

  it("tells apart keys that differ in case, in scope, or by a combining accent", async () => {
    const { verbs } = suite();
    const scope = freshLane();
    const keys = ["k", "K", "k ", "é", "e\u0301", "%", "_", "''", "\\", "{}", "NULL", "ключ", "🙂"];
    const tasks = [...keys.map((key) => ({ scope, key })), { scope: `${scope}/a`, key: "k" }];
    expect((await verbs.record(tasks)).map((one) => one.outcome)).toEqual(tasks.map(() => "recorded"));
    for (const key of keys) expect((await verbs.look({ scope, key }))?.["key"]).toBe(key);
  });

  it("claims what it records, when asked to", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const task = { scope, key: "k", body: "the body" };
    expect(await ledger.recordAndClaim(task)).toEqual({ outcome: "claimed", attempt: 1 });
    expect(await ledger.recordAndClaim(task)).toEqual({ outcome: "duplicate", state: "running" });
    expect(await verbs.complete([{ scope, key: "k", attempt: 1 }])).toEqual(["done"]);
    expect(await ledger.recordAndClaim(task)).toEqual({ outcome: "duplicate", state: "done" });
  });

  it("claims for as long as the lease: alone, with others, and with options", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    const claim = { leaseMs: minute, worker: "w" };
    const [alone, one, other, important] = ["alone", "one", "other", "important"].map((key) => ({
      scope,
      key,
    }));
    await verbs.record([alone!], claim);
    await verbs.record([one!, other!], claim);
    await verbs.record([{ ...important!, priority: 1 }], claim);
    for (const task of [alone!, one!, important!])
      expect(await verbs.look(task)).toMatchObject({ state: "running", attempt: 1, held_by: "w" });
    expect(await claimDue(ledger, scope)).toEqual([]);
    await clock.advance(minute + 1);
    expect(keysOf(await claimDue(ledger, scope)).toSorted()).toEqual(["alone", "important", "one", "other"]);
  });

  it("claims a known task that is due, with what was recorded first", async () => {
    const { ledger } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k", body: "first", type: "thing.made" });
    const answer = await ledger.recordAndClaim({ scope, key: "k", body: "again" });
    expect(answer).toMatchObject({
      outcome: "claimed",
      attempt: 1,
      task: { scope, key: "k", attempt: 1, tries: 1, body: "first", type: "thing.made", steps: [] },
    });
  });

  it("flags the same key with another fingerprint, and does not run it", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k", fingerprint: "a", body: "100" });
    const other = { scope, key: "k", fingerprint: "b", body: "900" };
    expect(await ledger.recordAndClaim(other)).toEqual({ outcome: "conflict", state: "waiting" });
    expect(await ledger.record(other)).toEqual({ outcome: "conflict", state: "waiting" });
    expect(await verbs.payload({ scope, key: "k" })).toBe("100");
    const known = await verbs.look({ scope, key: "k" });
    expect(known).toMatchObject({ state: "waiting", attempt: 0, fingerprint: "a" });
    expect((known?.["log"] as { what: string }[]).map((one) => one.what)).toEqual(["conflict", "conflict"]);
    expect(await ledger.record({ scope, key: "k", fingerprint: "a" })).toMatchObject({
      outcome: "duplicate",
    });
    expect(await ledger.record({ scope, key: "k" })).toMatchObject({ outcome: "duplicate" });
  });

  it("answers a batch in its order: new, known, twice in it, in conflict", async () => {
    const { verbs } = suite();
    const scope = freshLane();
    await verbs.record([{ scope, key: "known", fingerprint: "a" }]);
    const answers = await verbs.record([
      { scope, key: "z" },
      { scope, key: "known", fingerprint: "a" },
      { scope, key: "twice", body: "first" },
      { scope, key: "known", fingerprint: "b" },
      { scope, key: "twice", body: "second" },
      { scope, key: "a", ignored: "no handler" },
    ]);
    expect(answers).toEqual([
      { outcome: "recorded" },
      { outcome: "duplicate", state: "waiting" },
      { outcome: "recorded" },
      { outcome: "conflict", state: "waiting" },
      { outcome: "duplicate", state: "waiting" },
      { outcome: "recorded", state: "ignored" },
    ]);
    expect(await verbs.payload({ scope, key: "twice" })).toBe("first");
  });

  it("claims a batch in the same way", async () => {
    const { verbs } = suite();
    const scope = freshLane();
    const claim = { leaseMs: minute, worker: "w" };
    await verbs.record([{ scope, key: "waits" }]);
    await verbs.record([{ scope, key: "runs" }], claim);
    const answers = await verbs.record(
      [
        { scope, key: "new" },
        { scope, key: "waits" },
        { scope, key: "runs" },
        { scope, key: "new" },
        { scope, key: "grouped", serial: "g" },
        { scope, key: "later", delayMs: minute },
        { scope, key: "ignored", ignored: "no handler" },
      ],
      claim,
    );
    expect(answers.map((one) => one.outcome)).toEqual([
      "claimed",
      "claimed",
      "duplicate",
      "duplicate",
      "claimed",
      "recorded",
      "recorded",
    ]);
  });

  it("keeps a task for later until then", async () => {
    const { ledger, clock, bench } = suite();
    const scope = freshLane();
    const at = new Date((await clock.now()) + 2 * minute);
    await ledger.record({ scope, key: "delayed", delayMs: minute });
    await ledger.record({ scope, key: "dated", dueAt: at });
    expect(await claimDue(ledger, scope)).toEqual([]);
    await clock.advance(minute + 1);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["delayed"]);
    expect(new Date((await bench.ledger.verbs.look({ scope, key: "dated" }))?.["due_at"] as string)).toEqual(
      at,
    );
    await clock.advance(minute + 1);
    expect(keysOf(await claimDue(ledger, scope))).toContain("dated");
  });

  it("keeps what has no handler without running it", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const task = { scope, key: "k", ignored: "no handler for thing.made" };
    expect(await ledger.record(task)).toEqual({ outcome: "recorded", state: "ignored" });
    expect(await ledger.recordAndClaim(task)).toEqual({ outcome: "duplicate", state: "ignored" });
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await verbs.look({ scope, key: "k" })).toMatchObject({ state: "ignored", reason: task.ignored });
  });

  it("keeps what was said about a task", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.record({
      scope,
      key: "k",
      type: "a.b",
      priority: -7,
      serial: "group",
      slots: 3,
      maxTries: 4,
      cause: { scope: "stripe", key: "evt_1" },
    });
    expect(await verbs.look({ scope, key: "k" })).toMatchObject({
      type: "a.b",
      priority: -7,
      serial: "group",
      slots: 3,
      max_tries: 4,
      cause: "stripe evt_1",
      generation: 1,
      attempt: 0,
    });
  });

  it("answers an empty batch with nothing, as every batch verb does", async () => {
    const { verbs } = suite();
    expect(await verbs.record([])).toEqual([]);
    expect(await verbs.complete([])).toEqual([]);
    expect(await verbs.fail([])).toEqual([]);
    expect(await verbs.renew([], minute)).toEqual([]);
    expect(await verbs.saveSteps([])).toEqual([]);
    expect(await verbs.replay([])).toEqual([]);
  });
}
