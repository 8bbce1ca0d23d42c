import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimDue, claimOne, freshLane, keysOf, minute, recordAll } from "../support.ts";

const lease = { leaseMs: minute, worker: "w1" };

export function claimSuite(suite: () => Suite): void {
  it("gives a task to one, and tells the other how long", async () => {
    const { verbs, ledger } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k", body: "body", type: "t" });
    expect(await verbs.claim({ scope, key: "k" }, lease)).toMatchObject({
      outcome: "claimed",
      attempt: 1,
      task: { scope, key: "k", attempt: 1, generation: 1, tries: 1, maxTries: 30, body: "body", type: "t" },
    });
    const other = await verbs.claim({ scope, key: "k" }, { ...lease, worker: "w2" });
    expect(other).toMatchObject({ outcome: "running", state: "running" });
    const ms = (other as { due_in_ms: number }).due_in_ms;
    expect(ms).toBeGreaterThan(0);
    expect(ms).toBeLessThanOrEqual(minute);
    expect(await verbs.look({ scope, key: "k" })).toMatchObject({ held_by: "w1", attempt: 1 });
  });

  it("gives it to another when the lease has ended, with a higher attempt", async () => {
    const { verbs, ledger, clock } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    await clock.advance(minute + 1);
    const taken = await verbs.claim({ scope, key: "k" }, { ...lease, worker: "w2" });
    expect(taken).toMatchObject({ outcome: "claimed", attempt: 2, task: { tries: 2 } });
    const known = await verbs.look({ scope, key: "k" });
    expect(known).toMatchObject({ held_by: "w2" });
    expect(known?.["log"]).toMatchObject([{ what: "lapsed", attempt: 1, detail: "the lease of w1 ran out" }]);
  });

  it("says missing, done, dead, waiting for what cannot be claimed now", async () => {
    const { verbs, ledger } = suite();
    const scope = freshLane();
    expect(await verbs.claim({ scope, key: "none" }, lease)).toEqual({ outcome: "missing" });
    await ledger.recordAndClaim({ scope, key: "done" });
    await ledger.complete({ scope, key: "done", attempt: 1 });
    expect(await verbs.claim({ scope, key: "done" }, lease)).toEqual({ outcome: "done", state: "done" });
    await ledger.recordAndClaim({ scope, key: "dead" });
    await ledger.fail({ scope, key: "dead", attempt: 1, reason: "broken", retry: "never" });
    expect(await verbs.claim({ scope, key: "dead" }, lease)).toEqual({
      outcome: "dead",
      state: "dead",
      reason: "broken",
    });
    await ledger.record({ scope, key: "later", delayMs: minute });
    expect(await verbs.claim({ scope, key: "later" }, lease)).toMatchObject({ outcome: "waiting" });
  });

  it("lets the sender itself try again early, but nobody take what runs", async () => {
    const { verbs, ledger } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k", delayMs: minute });
    expect(await verbs.claim({ scope, key: "k" }, { ...lease, early: true })).toMatchObject({
      outcome: "claimed",
    });
    expect(await verbs.claim({ scope, key: "k" }, { ...lease, early: true })).toMatchObject({
      outcome: "running",
    });
  });

  it("claims what is due: by priority, then by due time, and no more than asked for", async () => {
    const { ledger, clock } = suite();
    const scope = freshLane();
    await recordAll(ledger, [
      { scope, key: "low", priority: -5 },
      { scope, key: "second" },
      { scope, key: "high", priority: 9 },
      { scope, key: "first", dueAt: new Date((await clock.now()) - minute) },
      { scope, key: "later", delayMs: minute },
      { scope, key: "later but urgent", delayMs: minute, priority: 9 },
    ]);
    expect(keysOf(await claimDue(ledger, scope, 2))).toEqual(["high", "first"]);
    expect(keysOf(await claimDue(ledger, scope, 2))).toEqual(["second", "low"]);
    expect(await claimDue(ledger, scope, 2)).toEqual([]);
  });

  it("says when to look again", async () => {
    const { ledger, verbs } = suite();
    const lane = freshLane();
    expect(await verbs.claimDue([lane], { max: 5, ...lease })).toEqual({
      tasks: [],
      after: null,
      nextInMs: null,
    });
    await recordAll(ledger, [
      { scope: lane, key: "a", delayMs: 10 * minute },
      { scope: `${lane}/x`, key: "b", delayMs: 5 * minute, priority: -3 },
    ]);
    const { nextInMs } = await verbs.claimDue([lane], { max: 5, ...lease });
    expect(nextInMs).toBeGreaterThan(4 * minute);
    expect(nextInMs).toBeLessThanOrEqual(5 * minute);
    await ledger.recordAndClaim({ scope: lane, key: "runs" });
    // A lease that runs out is work too.
    expect((await verbs.claimDue([lane], { max: 5, ...lease })).nextInMs).toBeLessThanOrEqual(minute);
  });

  it("takes a lane for its scope and all below it, and for nothing else", async () => {
    const { ledger, verbs } = suite();
    const lane = freshLane();
    const inside = [lane, `${lane}/acct_1`, `${lane}/acct_1/live`, `${lane}/~`];
    const outside = [`${lane}x`, `${lane}-2`, `${lane}0`, `x${lane}`, `${lane}.a`];
    for (const scope of [...inside, ...outside]) await ledger.record({ scope, key: "k" });
    const { tasks } = await verbs.claimDue([lane], { max: 20, ...lease });
    expect(tasks.map((task) => task.scope).toSorted()).toEqual(inside.toSorted());
    const some = await verbs.claimDue([`${lane}x`, `${lane}.a`], { max: 20, ...lease });
    expect(some.tasks.map((task) => task.scope).toSorted()).toEqual([`${lane}.a`, `${lane}x`]);
  });

  it("shares between scopes, and gives what is left to who has more", async () => {
    const { ledger, verbs } = suite();
    const lane = freshLane();
    const crowd = Array.from({ length: 20 }, (_, i) => ({ scope: `${lane}/crowd`, key: `${i}` }));
    await recordAll(ledger, [
      ...crowd,
      { scope: `${lane}/few`, key: "1" },
      { scope: `${lane}/one`, key: "1" },
    ]);
    const { tasks } = await verbs.claimDue([lane], { max: 9, ...lease });
    const counts = new Map<string, number>();
    for (const { scope } of tasks) counts.set(scope, (counts.get(scope) ?? 0) + 1);
    expect(Object.fromEntries(counts)).toEqual({
      [`${lane}/crowd`]: 7,
      [`${lane}/few`]: 1,
      [`${lane}/one`]: 1,
    });
  });

  it("goes on after the scope where the last call stopped", async () => {
    const { ledger, verbs } = suite();
    const lane = freshLane();
    const scopes = ["a", "b", "c", "d", "e"].map((name) => `${lane}/${name}`);
    for (const scope of scopes)
      await recordAll(ledger, [
        { scope, key: "1" },
        { scope, key: "2" },
      ]);
    const seen: string[] = [];
    let after: string | null = null;
    for (let call = 0; call < 3; call++) {
      const due = await verbs.claimDue([lane], { max: 2, ...lease, after });
      seen.push(...due.tasks.map((task) => task.scope));
      after = due.after;
    }
    expect(new Set(seen)).toEqual(new Set(scopes));
  });

  it("holds a lane to its limits", async () => {
    const { ledger, verbs, clock } = suite();
    const lane = freshLane();
    await recordAll(
      ledger,
      Array.from({ length: 9 }, (_, i) => ({ scope: `${lane}/${i % 3}`, key: `${i}`, slots: 9999 })),
    );
    const claim = async (limit: object): Promise<number> => {
      const due = await verbs.claimDue([lane], { max: 10, ...lease, limits: { [lane]: limit } });
      return due.tasks.length;
    };
    expect(await claim({ max: 2 })).toBe(2);
    expect(await claim({ max: 0 })).toBe(0);
    expect(await claim({ running: 4 })).toBe(2);
    expect(await claim({ running: 4 })).toBe(0);
    const rate = { rate: { limit: 2, perMs: minute } };
    expect(await claim(rate)).toBe(2);
    expect(await claim(rate)).toBe(0);
    await clock.advance(minute / 2);
    expect(await claim(rate)).toBe(1);
  });

  it("renews many claims at once, and says which are lost", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    for (const key of ["kept", "taken", "done"]) await ledger.recordAndClaim({ scope, key });
    await ledger.complete({ scope, key: "done", attempt: 1 });
    await clock.advance(minute / 2);
    const claims = ["kept", "taken", "done", "none"].map((key) => ({ scope, key, attempt: 1 }));
    expect(await verbs.renew(claims, minute)).toEqual(["renewed", "renewed", "lost", "lost"]);
    await clock.advance(minute / 2 + 1);
    expect(await verbs.claim({ scope, key: "kept" }, lease)).toMatchObject({ outcome: "running" });
    await clock.advance(minute);
    await claimOne(ledger, scope, "taken");
    expect(await verbs.renew(claims, minute)).toEqual(["renewed", "lost", "lost", "lost"]);
  });
}
