import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimDue, claimOne, freshLane, keysOf, minute, stateOf } from "../support.ts";

export function stepSuite(suite: () => Suite): void {
  it("keeps the steps of an attempt for the next one", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    const claim = { scope, key: "k", attempt: 1 };
    const value = JSON.stringify({ file: 'a "b" \\', n: 1 });
    const saved = await verbs.saveSteps([
      { ...claim, name: "render", state: "done", value },
      { ...claim, name: "mail", state: "started" },
      { ...claim, name: "fetch", state: "failed", value: '"refused"' },
      { ...claim, attempt: 2, name: "stale", state: "done" },
      { ...claim, key: "none", name: "x", state: "done" },
    ]);
    expect(saved).toEqual(["saved", "saved", "saved", "lost", "lost"]);
    await clock.advance(minute + 1);
    const { steps } = await claimOne(ledger, scope, "k");
    const byName = Object.fromEntries(steps.map((step) => [step.name, step]));
    expect(Object.keys(byName).toSorted()).toEqual(["fetch", "mail", "render"]);
    expect(byName["render"]).toMatchObject({ state: "done", value, attempt: 1 });
    expect(byName["mail"]).toMatchObject({ state: "started", value: null });
    expect(byName["fetch"]).toMatchObject({ state: "failed", value: '"refused"' });
  });

  it("leaves a done step as it is, and lets the others go on", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    const claim = { scope, key: "k", attempt: 1 };
    await verbs.saveSteps([{ ...claim, name: "a", state: "started" }]);
    await verbs.saveSteps([{ ...claim, name: "a", state: "done", value: "1" }]);
    await verbs.saveSteps([{ ...claim, name: "a", state: "done", value: "2" }]);
    await verbs.saveSteps([{ ...claim, name: "a", state: "failed", value: "3" }]);
    expect((await verbs.look(claim))?.["steps"]).toMatchObject([{ name: "a", state: "done", value: "1" }]);
  });

  it("lets a person say what became of a step whose outcome is unknown", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    for (const key of ["sent", "not sent"]) {
      await ledger.recordAndClaim({ scope, key });
      const claim = { scope, key, attempt: 1 };
      await verbs.saveSteps([{ ...claim, name: "mail", state: "started" }]);
      const decision = { name: "mail", decision: "done", value: '"msg_1"', actor: "ann" } as const;
      expect(await verbs.resolveStep(claim, decision)).toEqual({ outcome: "missing" }); // It still runs.
      await verbs.fail([{ ...claim, reason: "was it sent?", retry: "unknown" }]);
      expect(await verbs.resolveStep(claim, { name: "other", decision: "done" })).toEqual({
        outcome: "missing",
      });
    }
    const sent = { name: "mail", decision: "done", value: '"msg_1"', actor: "ann" } as const;
    expect(await verbs.resolveStep({ scope, key: "sent" }, sent)).toEqual({ outcome: "resolved" });
    expect(await verbs.resolveStep({ scope, key: "sent" }, sent)).toEqual({ outcome: "missing" });
    const not = { name: "mail", decision: "not done" } as const;
    expect(await verbs.resolveStep({ scope, key: "not sent" }, not)).toEqual({ outcome: "resolved" });
    await verbs.replay([
      { scope, key: "sent" },
      { scope, key: "not sent" },
    ]);
    expect((await claimOne(ledger, scope, "sent")).steps).toMatchObject([
      { state: "done", value: '"msg_1"' },
    ]);
    expect((await claimOne(ledger, scope, "not sent")).steps).toEqual([]);
  });

  it("wakes a task that waits for a signal, and keeps the first word", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const task = { scope, key: "k" };
    await ledger.recordAndClaim(task);
    const value = JSON.stringify({ fingerprint: "sha-1" });
    await verbs.saveSteps([{ ...task, attempt: 1, name: "approval", state: "waiting", value }]);
    expect(await verbs.defer({ ...task, attempt: 1 }, { delayMs: "forever", signal: "approval" })).toBe(
      "waiting",
    );
    expect(await claimDue(ledger, scope)).toEqual([]);
    const yes = { name: "approval", value: '"yes"', fingerprint: "sha-1", actor: "ann" };
    expect(await verbs.signal({ scope, key: "none" }, yes)).toEqual({ outcome: "missing" });
    const other = { ...yes, fingerprint: "sha-2" };
    expect(await verbs.signal(task, other)).toEqual({ outcome: "conflict", expected: "sha-1" });
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await verbs.signal(task, { name: "something else" })).toEqual({ outcome: "sent" });
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await verbs.signal(task, yes)).toEqual({ outcome: "sent" });
    expect(await verbs.signal(task, { ...yes, value: '"no"' })).toEqual({ outcome: "duplicate" });
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
    const heard = await verbs.signals(task);
    expect(heard["approval"]).toMatchObject({ value: '"yes"', actor: "ann" });
    expect(Object.keys(heard).toSorted()).toEqual(["approval", "something else"]);
  });

  it("does not sleep through a signal that came before it decided to wait", async () => {
    const { ledger, verbs, bench } = suite();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    expect(await verbs.signal({ scope, key: "k" }, { name: "go" })).toEqual({ outcome: "sent" });
    expect(await stateOf(bench, scope, "k")).toBe("running");
    await verbs.defer({ scope, key: "k", attempt: 1 }, { delayMs: "forever", signal: "go" });
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
  });

  it("lets an effect key take effect once", async () => {
    const { verbs } = suite();
    const scope = freshLane();
    const cause = { scope: "stripe", key: "evt_1" };
    expect(await verbs.once("credit:in_1", { scope, cause })).toBe(true);
    expect(await verbs.once("credit:in_1", { scope, cause })).toBe(false);
    expect(await verbs.once("credit:in_2", { scope })).toBe(true);
    expect(await verbs.once("credit:in_1", { scope: `${scope}/other` })).toBe(true);
    expect(await verbs.once(`${scope}:default`)).toBe(true);
    expect(await verbs.once(`${scope}:default`)).toBe(false);
  });

  it("moves a subject once, only from the states that allow it", async () => {
    const { verbs } = suite();
    const machine = freshLane();
    const pay = {
      machine,
      subject: "order_1",
      move: "pay",
      from: ["new", "failed"],
      to: "paid",
      initial: "new",
    };
    expect(await verbs.machineState(machine, "order_1")).toBe(null);
    expect(await verbs.move({ ...pay, cause: { scope: "stripe", key: "evt_1" } })).toEqual({
      outcome: "moved",
      from: "new",
      state: "paid",
      version: 1,
    });
    expect(await verbs.move(pay)).toEqual({ outcome: "refused", state: "paid", version: 1 });
    const refund = { ...pay, move: "refund", from: ["paid"], to: "refunded" };
    expect(await verbs.move({ ...refund, version: 0 })).toEqual({
      outcome: "refused",
      state: "paid",
      version: 1,
    });
    expect(await verbs.move({ ...refund, from: [] })).toMatchObject({ outcome: "refused" });
    expect(await verbs.move({ ...refund, version: 1 })).toMatchObject({ outcome: "moved", version: 2 });
    expect(await verbs.machineState(machine, "order_1")).toMatchObject({
      state: "refunded",
      version: 2,
      moves: [
        { version: 1, move: "pay", from: "new", to: "paid", cause: "stripe evt_1" },
        { version: 2, move: "refund", from: "paid", to: "refunded", cause: null },
      ],
    });
  });
}
