import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimDue, claimOne, freshLane, keysOf, minute, stateOf } from "../support.ts";

export function finishSuite(suite: () => Suite): void {
  it("completes many at once, with results, and says which were lost", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    for (const key of ["a", "b", "c"]) await ledger.recordAndClaim({ scope, key });
    const result = JSON.stringify({ text: 'it\'s "done" \\ ü' });
    const claims = [
      { scope, key: "c", attempt: 1, result },
      { scope, key: "b", attempt: 2 },
      { scope, key: "none", attempt: 1 },
      { scope, key: "a", attempt: 1 },
    ];
    expect(await verbs.complete(claims)).toEqual(["done", "lost", "lost", "done"]);
    expect(await verbs.look({ scope, key: "c" })).toMatchObject({ state: "done", due_at: null, result });
    expect(await verbs.look({ scope, key: "a" })).toMatchObject({ state: "done", result: null });
    expect(await verbs.look({ scope, key: "b" })).toMatchObject({ state: "running", attempt: 1 });
  });

  it("tells who has completed it, and did not hear so, that it is done, and changes nothing", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const [first, second] = [
      { scope, key: "first", attempt: 1, result: '"once"' },
      { scope, key: "second", attempt: 1 },
    ];
    for (const { key } of [first, second]) await ledger.recordAndClaim({ scope, key });
    expect(await verbs.complete([first, second])).toEqual(["done", "done"]);
    const before = await verbs.look(first);
    expect(await verbs.complete([{ ...first, result: '"twice"' }])).toEqual(["kept"]);
    expect(await verbs.complete([second, { ...first, attempt: 2 }])).toEqual(["kept", "lost"]);
    expect(await verbs.fail([{ ...first, reason: "cut off", retry: "never" }])).toEqual(["done"]);
    expect(await verbs.look(first)).toEqual(before);
    // Whoever runs it again has to complete it again.
    await verbs.replay([first], { again: true });
    expect(await verbs.complete([first])).toEqual(["lost"]);
    expect(await verbs.fail([{ ...first, reason: "cut off", retry: "never" }])).toEqual(["lost"]);
  });

  it("completes and records in one statement, and says of each what it would say alone", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const claim = { leaseMs: 60_000, worker: "w" };
    for (const key of ["a", "b", "kept"]) await ledger.recordAndClaim({ scope, key });
    await verbs.complete([{ scope, key: "kept", attempt: 1 }]);
    const { completed, recorded } = await verbs.completeAndRecord(
      [
        { scope, key: "b", attempt: 2 },
        { scope, key: "kept", attempt: 1 },
        { scope, key: "a", attempt: 1, result: '"ü"' },
      ],
      [
        { scope, key: "new", body: "5" },
        // It has been completed before, in the same statement.
        { scope, key: "a" },
        { scope, key: "later", delayMs: 60_000 },
      ],
      claim,
    );
    expect(completed).toEqual(["lost", "kept", "done"]);
    expect(recorded).toEqual([
      { outcome: "claimed", attempt: 1 },
      { outcome: "duplicate", state: "done" },
      { outcome: "recorded" },
    ]);
    expect(await verbs.look({ scope, key: "a" })).toMatchObject({ state: "done", result: '"ü"' });
    expect(await verbs.look({ scope, key: "b" })).toMatchObject({ state: "running", attempt: 1 });
    expect(await verbs.look({ scope, key: "new" })).toMatchObject({ state: "running" });
    expect(await verbs.payload({ scope, key: "new" })).toBe("5");
    expect(await verbs.completeAndRecord([{ scope, key: "new", attempt: 1 }], [{ scope, key: "c" }])).toEqual(
      {
        completed: ["done"],
        recorded: [{ outcome: "recorded" }],
      },
    );
  });

  it("tries again after a backoff that grows, and keeps the reason", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    const waits: number[] = [];
    for (let attempt = 1; attempt <= 6; attempt++) {
      const failed = { scope, key: "k", attempt, reason: `broken ${attempt}`, retry: "backoff" as const };
      expect(await verbs.fail([failed])).toEqual(["waiting"]);
      const known = await verbs.look({ scope, key: "k" });
      expect(known).toMatchObject({ state: "waiting", reason: `broken ${attempt}`, tries: attempt });
      const failedAt = (known?.["log"] as { logged_at: string }[]).at(-1)!.logged_at;
      waits.push(Date.parse(known?.["due_at"] as string) - Date.parse(failedAt));
      // A slow machine may need longer than the first pauses for the next statement.
      if (attempt > 4) expect(await claimDue(ledger, scope)).toEqual([]);
      await clock.advance(waits.at(-1)! + 1);
      expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
    }
    // 2 s doubled each time, of which up to a half is taken off.
    for (const [i, wait] of waits.entries()) {
      expect(wait).toBeLessThanOrEqual(2_000 * 2 ** i + 100);
      expect(wait).toBeGreaterThan(2_000 * 2 ** i * 0.5 - 100);
    }
  });

  it("never waits longer than four hours before the next try", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    for (let attempt = 1; attempt < 20; attempt++) {
      await verbs.fail([{ scope, key: "k", attempt, reason: "broken", retry: "backoff" }]);
      await verbs.claim({ scope, key: "k" }, { leaseMs: minute, worker: "w1", early: true });
    }
    await verbs.fail([{ scope, key: "k", attempt: 20, reason: "broken", retry: "backoff" }]);
    const known = await verbs.look({ scope, key: "k" });
    const failedAt = (known?.["log"] as { logged_at: string }[]).at(-1)!.logged_at;
    const wait = Date.parse(known?.["due_at"] as string) - Date.parse(failedAt);
    expect(known).toMatchObject({ state: "waiting", tries: 20 });
    expect(wait).toBeGreaterThan(119 * minute);
    expect(wait).toBeLessThanOrEqual(240 * minute + 1_000);
  });

  it("tries again exactly when told, never, or parks it as unknown", async () => {
    const { ledger, verbs, clock, bench } = suite();
    const scope = freshLane();
    for (const key of ["after", "never", "unknown"]) await ledger.recordAndClaim({ scope, key });
    const outcomes = await verbs.fail([
      { scope, key: "after", attempt: 1, reason: "busy", retry: { afterMs: 5 * minute } },
      { scope, key: "never", attempt: 1, reason: "no such customer", retry: "never" },
      { scope, key: "unknown", attempt: 1, reason: "was it sent?", retry: "unknown" },
      { scope, key: "none", attempt: 1, reason: "", retry: "never" },
    ]);
    expect(outcomes).toEqual(["waiting", "dead", "unknown", "lost"]);
    await clock.advance(5 * minute - 10_000);
    expect(await claimDue(ledger, scope)).toEqual([]);
    await clock.advance(10_001);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["after"]);
    expect(await verbs.look({ scope, key: "never" })).toMatchObject({
      state: "dead",
      reason: "no such customer",
    });
    expect(await stateOf(bench, scope, "unknown")).toBe("unknown");
  });

  it("gives up when the tries are used up", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k", maxTries: 2 });
    const failed = { scope, key: "k", reason: "still broken", retry: "backoff" as const };
    expect(await verbs.fail([{ ...failed, attempt: 1 }])).toEqual(["waiting"]);
    await clock.advance(minute);
    await claimOne(ledger, scope, "k");
    expect(await verbs.fail([{ ...failed, attempt: 2 }])).toEqual(["dead"]);
    const known = await verbs.look({ scope, key: "k" });
    expect(known).toMatchObject({ state: "dead", reason: "still broken", tries: 2, due_at: null });
    expect((known?.["log"] as { what: string }[]).map((one) => one.what)).toEqual(["failed", "dead"]);
  });

  it("keeps a reason that Postgres cannot keep, as far as it can", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    const reason = `NUL \0, lone \uD800, and long: ${"x".repeat(5_000)}`;
    expect(await verbs.fail([{ scope, key: "k", attempt: 1, reason, retry: "never" }])).toEqual(["dead"]);
    const kept = (await verbs.look({ scope, key: "k" }))?.["reason"] as string;
    expect(kept).toContain("NUL \uFFFD, lone \uFFFD, and long: xxx");
    expect(kept).toHaveLength(2_000);
  });

  it("gives a claim back without using up a try", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k", maxTries: 1 });
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(await verbs.defer({ scope, key: "k", attempt })).toBe("waiting");
      const again = await claimOne(ledger, scope, "k");
      expect(again).toMatchObject({ attempt: attempt + 1, tries: 1 });
    }
    expect(await verbs.defer({ scope, key: "k", attempt: 4 }, { delayMs: minute })).toBe("waiting");
    expect(await claimDue(ledger, scope)).toEqual([]);
    await clock.advance(minute + 1);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
    const at = new Date((await clock.now()) + 10 * minute);
    expect(await verbs.defer({ scope, key: "k", attempt: 5 }, { at })).toBe("waiting");
    expect(new Date((await verbs.look({ scope, key: "k" }))?.["due_at"] as string)).toEqual(at);
    expect(await verbs.defer({ scope, key: "k", attempt: 5 })).toBe("lost");
  });

  it("cancels what waits or runs, and fences off the run", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "waits" });
    await ledger.recordAndClaim({ scope, key: "runs" });
    await ledger.recordAndClaim({ scope, key: "done" });
    await ledger.complete({ scope, key: "done", attempt: 1 });
    expect(await verbs.cancel({ scope, key: "waits" })).toEqual({ outcome: "cancelled" });
    const reason = { reason: "the order was withdrawn", actor: "ann" };
    expect(await verbs.cancel({ scope, key: "runs" }, reason)).toEqual({ outcome: "cancelled" });
    expect(await verbs.cancel({ scope, key: "runs" })).toEqual({ outcome: "cancelled" });
    expect(await verbs.cancel({ scope, key: "done" })).toEqual({ outcome: "done" });
    expect(await verbs.cancel({ scope, key: "none" })).toEqual({ outcome: "missing" });
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await verbs.complete([{ scope, key: "runs", attempt: 1 }])).toEqual(["lost"]);
    const known = await verbs.look({ scope, key: "runs" });
    expect(known).toMatchObject({ state: "cancelled", reason: reason.reason });
    expect(known?.["log"]).toMatchObject([{ what: "cancelled", actor: "ann" }]);
  });
}
