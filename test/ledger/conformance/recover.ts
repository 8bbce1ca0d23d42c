import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimDue, claimOne, freshLane, minute } from "../support.ts";

const day = 24 * 60 * minute;

export function recoverSuite(suite: () => Suite): void {
  it("replays what gave up, with its tries given back and its steps kept", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const task = { scope, key: "k" };
    await ledger.recordAndClaim({ ...task, maxTries: 1, body: "body" });
    await verbs.saveSteps([{ ...task, attempt: 1, name: "render", state: "done", value: "1" }]);
    await verbs.fail([{ ...task, attempt: 1, reason: "broken", retry: "backoff" }]);
    const replayed = await verbs.replay([task, { scope, key: "none" }], { actor: "ann", reason: "mended" });
    expect(replayed).toEqual([{ outcome: "replayed" }, { outcome: "missing" }]);
    const again = await claimOne(ledger, scope, "k");
    expect(again).toMatchObject({ generation: 1, tries: 1, maxTries: 1, body: "body" });
    expect(again.attempt).toBeGreaterThan(1);
    expect(again.steps).toMatchObject([{ name: "render", state: "done" }]);
    expect(await verbs.complete([{ ...task, attempt: 1 }])).toEqual(["lost"]);
    expect(await verbs.complete([again])).toEqual(["done"]);
    const log = (await verbs.look(task))?.["log"] as { what: string }[];
    expect(log.map((one) => one.what)).toEqual(["dead", "replayed"]);
    expect(log[1]).toMatchObject({ actor: "ann", detail: "mended" });
  });

  it("replays what is ignored, cancelled, unknown, or waits for later", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "ignored", ignored: "no handler" });
    await ledger.record({ scope, key: "cancelled" });
    await verbs.cancel({ scope, key: "cancelled" });
    await ledger.recordAndClaim({ scope, key: "unknown" });
    await verbs.fail([{ scope, key: "unknown", attempt: 1, reason: "?", retry: "unknown" }]);
    await ledger.record({ scope, key: "later", delayMs: day });
    await ledger.recordAndClaim({ scope, key: "running" });
    await ledger.recordAndClaim({ scope, key: "lapsed" });
    const keys = ["ignored", "cancelled", "unknown", "later"];
    const tasks = [...keys, "running"].map((key) => ({ scope, key }));
    const outcomes = (await verbs.replay(tasks)).map((one) => one.outcome);
    expect(outcomes).toEqual(["replayed", "replayed", "replayed", "replayed", "running"]);
    const claimed = await claimDue(ledger, scope);
    expect(claimed.map((task) => task.key).toSorted()).toEqual(keys.toSorted());
    await clock.advance(minute + 1);
    expect(await verbs.replay([{ scope, key: "lapsed" }])).toEqual([{ outcome: "replayed" }]);
    expect(await verbs.complete([{ scope, key: "lapsed", attempt: 1 }])).toEqual(["lost"]);
  });

  it("leaves what is done alone, unless a new generation is asked for by name", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    const task = { scope, key: "k" };
    await ledger.recordAndClaim(task);
    await verbs.saveSteps([{ ...task, attempt: 1, name: "a", state: "done", value: "1" }]);
    await verbs.complete([{ ...task, attempt: 1, result: '"first"' }]);
    expect(await verbs.replay([task])).toEqual([{ outcome: "done" }]);
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await verbs.replay([task], { again: true })).toEqual([{ outcome: "replayed again" }]);
    const again = await claimOne(ledger, scope, "k");
    expect(again).toMatchObject({ generation: 2, tries: 1, steps: [] });
    await verbs.complete([again]);
    // The second run returned nothing, and what the first one returned is not its result.
    expect(await verbs.look(task)).toMatchObject({ state: "done", generation: 2, result: null, steps: [] });
  });

  it("prunes payloads first and keys later, and knows a late duplicate meanwhile", async () => {
    const { ledger, verbs, clock } = suite();
    const lane = freshLane();
    const scope = `${lane}/a`;
    for (const key of ["done", "dead", "unknown"])
      await ledger.recordAndClaim({ scope, key, body: "personal" });
    await verbs.complete([{ scope, key: "done", attempt: 1, result: "1" }]);
    await verbs.fail([
      { scope, key: "dead", attempt: 1, reason: "broken", retry: "never" },
      { scope, key: "unknown", attempt: 1, reason: "?", retry: "unknown" },
    ]);
    await ledger.record({ scope, key: "waits", delayMs: 1000 * day });
    const payloads = { what: "payloads", olderThanMs: 90 * day } as const;
    const keys = { what: "keys", olderThanMs: 400 * day } as const;
    const nothing = { pruned: 0, after: null };
    expect(await verbs.prune({ ...payloads, lane })).toEqual(nothing);
    await clock.advance(91 * day);
    expect(await verbs.prune({ ...payloads, lane: "nobody" })).toEqual(nothing);
    expect(await verbs.prune({ ...payloads, exceptLanes: [lane], lane })).toEqual(nothing);
    expect(await verbs.prune({ ...payloads, states: ["ignored"], lane })).toEqual(nothing);
    expect(await verbs.prune({ ...payloads, lane })).toEqual({ pruned: 1, after: null });
    expect(await verbs.prune({ ...keys, lane })).toEqual(nothing);
    expect(await verbs.payload({ scope, key: "done" })).toBe(null);
    expect(await verbs.payload({ scope, key: "dead" })).toBe("personal"); // Somebody may still revive it.
    expect(await verbs.replay([{ scope, key: "done" }], { again: true })).toEqual([{ outcome: "pruned" }]);
    expect(await ledger.record({ scope, key: "done" })).toEqual({ outcome: "duplicate", state: "done" });
    await clock.advance(310 * day);
    const first = await verbs.prune({ ...keys, lane, max: 2 });
    expect(first).toMatchObject({ pruned: 2, after: expect.any(String) });
    expect(await verbs.prune({ ...keys, lane, max: 3, after: first.after })).toEqual(nothing);
    expect(await verbs.look({ scope, key: "done" })).toBe(null);
    expect(await verbs.look({ scope, key: "unknown" })).toMatchObject({ state: "unknown" });
    expect(await verbs.look({ scope, key: "waits" })).toMatchObject({ state: "waiting" });
  });

  it("keeps a payload again that was pruned, where what never began is delivered again", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    const again = { fingerprint: "f" };
    const bytes = Buffer.from([0xff, 0]);
    const states = {
      ignored: "body",
      bytes,
      cancelled: "body",
      begun: "body",
      done: "body",
      conflict: "body",
    };
    const tasks = Object.entries(states).map(([key, body]) => ({ scope, key, body, ...again }));
    const parked = { ignored: "no handler" };
    for (const task of tasks) {
      if (["ignored", "bytes", "conflict"].includes(task.key)) await ledger.record({ ...task, ...parked });
      else if (task.key === "cancelled") await ledger.record(task);
      else await ledger.recordAndClaim(task);
    }
    await ledger.complete({ scope, key: "done", attempt: 1 });
    for (const key of ["cancelled", "begun"]) await verbs.cancel({ scope, key });
    await clock.advance(91 * day);
    const payloads = { what: "payloads", olderThanMs: 90 * day, lane: scope } as const;
    expect(await verbs.prune(payloads)).toMatchObject({ pruned: 6 });
    // Who only asks brings nothing to keep.
    await verbs.call("record", [scope, "ignored"]);
    expect(await verbs.payload({ scope, key: "ignored" })).toBe(null);

    const other = { scope, key: "conflict", body: "other", fingerprint: "g" };
    const sent = [...tasks.filter(({ key }) => key !== "conflict"), other];
    // Twice in one batch is once, and the first counts.
    const outcomes = await verbs.record([...sent, { scope, key: "ignored", body: "second", ...again }], {
      leaseMs: minute,
      worker: "w",
    });
    const duplicate = (state: string): object => ({ outcome: "duplicate", state });
    expect(outcomes).toEqual([
      ...["ignored", "ignored", "cancelled", "cancelled", "done"].map(duplicate),
      { outcome: "conflict", state: "ignored" },
      duplicate("ignored"),
    ]);
    const kept = await Promise.all(Object.keys(states).map((key) => verbs.payload({ scope, key })));
    // What began may have lost its steps as well, and would take them again.
    expect(kept).toEqual(["body", bytes, "body", null, null, null]);
    // As long as if it had come now.
    expect(await verbs.prune(payloads)).toMatchObject({ pruned: 0 });
    const keys = ["ignored", "cancelled", "begun"].map((key) => ({ scope, key }));
    expect((await verbs.replay(keys)).map(({ outcome }) => outcome)).toEqual([
      "replayed",
      "replayed",
      "pruned",
    ]);
    expect(await claimOne(ledger, scope, "ignored")).toMatchObject({ body: "body" });
    expect((await verbs.look({ scope, key: "bytes" }))?.["log"]).toMatchObject([{ what: "kept again" }]);
  });

  it("keeps keys as long as a sender may repeat, unless that is overridden", async () => {
    const { ledger, verbs, clock } = suite();
    const lane = freshLane();
    await ledger.recordAndClaim({ scope: lane, key: "k" });
    await ledger.complete({ scope: lane, key: "k", attempt: 1 });
    await clock.advance(2 * day);
    const soon = { what: "keys", lane, olderThanMs: day } as const;
    await expect(verbs.prune(soon)).rejects.toMatchObject({ code: "value_invalid" });
    expect(await verbs.look({ scope: lane, key: "k" })).not.toBe(null);
    expect(await verbs.prune({ ...soon, override: true })).toEqual({ pruned: 1, after: null });
  });

  it("looks at what it does not know, and finds nothing", async () => {
    const { verbs } = suite();
    expect(await verbs.look({ scope: "none", key: "none" })).toBe(null);
    expect(await verbs.payload({ scope: "none", key: "none" })).toBe(null);
    expect(await verbs.signals({ scope: "none", key: "none" })).toEqual({});
  });

  it("counts what waits, runs and is parked", async () => {
    const { ledger, verbs, clock } = suite();
    const scope = freshLane();
    for (const key of ["runs", "dead", "done"]) await ledger.recordAndClaim({ scope, key });
    await ledger.fail({ scope, key: "dead", attempt: 1, reason: "broken", retry: "never" });
    await ledger.complete({ scope, key: "done", attempt: 1 });
    await ledger.record({ scope, key: "due" });
    await ledger.record({ scope, key: "later", delayMs: 10 * minute });
    await ledger.record({ scope, key: "ignored", ignored: "no handler" });
    await clock.advance(1_000);
    const stats = await verbs.stats();
    const here = stats.unfinished.find((one) => one.scope === scope);
    expect(here).toMatchObject({ due: 1, later: 1, running: 1 });
    expect(here?.oldest_due_ms).toBeGreaterThanOrEqual(1_000);
    expect(here?.oldest_running_ms).toBeGreaterThanOrEqual(1_000);
    expect(stats.parked.filter((one) => one.scope === scope)).toEqual([
      { scope, state: "dead", count: 1 },
      { scope, state: "ignored", count: 1 },
    ]);
  });

  it("answers whoever is on call", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    for (const key of ["a", "b"]) {
      await ledger.recordAndClaim({ scope, key });
      await ledger.fail({ scope, key, attempt: 1, reason: `broken ${key}1`, retry: "never" });
    }
    const status = await verbs.call<{ scopes: unknown[]; failures: { error: string }[] }>("status", ["true"]);
    expect(status.scopes).toContainEqual(expect.objectContaining({ scope, dead: 2, done: 0 }));
    expect(status.failures).toContainEqual(expect.objectContaining({ error: "broken …" }));
    expect(await verbs.call("stuck", ["1 minute", "1", scope])).toMatchObject({
      groups: [{ reason: "dead", scope, count: 2 }],
      tasks: [{ key: "a", error: "broken a1" }],
    });
    expect(await verbs.call("whereis", ["a"])).toContain(scope);
    expect(await verbs.call("story", [scope, "a"])).toMatchObject({
      state: "dead",
      effects: [],
      enqueued: [],
    });
    expect(await verbs.call("rows_of", [scope, "a"])).toMatchObject({ left_out: [] });
    const filter = JSON.stringify({ lane: scope, states: ["dead", "failed"] });
    expect(await verbs.call("replay_begin", [scope, filter, "false", "1", "ann"])).toMatchObject({
      found: 2,
    });
    expect(await verbs.call("replay_next", [scope, "1"])).toMatchObject({ total: 1, ended: false });
    expect(await verbs.call("replays", [])).toContainEqual(
      expect.objectContaining({ name: scope, total: 1 }),
    );
    expect(await verbs.call("replay_next", [scope])).toMatchObject({ total: 2, ended: true });
    expect(await verbs.call("replay_next", [scope])).toEqual({ outcome: "missing" });
    expect((await claimDue(ledger, scope)).map(({ key }) => key)).toEqual(["a"]); // The other one has its own time.
    expect(await verbs.call("delivered_again", [[scope], ["a"], ["2"]])).toBe(1);
    const audit = await verbs.call<{ what: string }[]>("audit", [null, null, "ann", null, scope]);
    expect(audit.map(({ what }) => what)).toEqual(["replayed", "replayed"]);
  });

  it("knows which workers are there", async () => {
    const { verbs, clock, bench } = suite();
    const [a, b] = [freshLane(), freshLane()];
    const there = async (): Promise<unknown> => {
      const { rows } = await bench.database.query(
        "select jsonb_agg(to_jsonb(w.lanes) order by id = $1::text desc) as lanes from onceward.worker w where id in ($1::text, $2::text)",
        [a, b],
      );
      return rows[0]?.["lanes"];
    };
    expect(await verbs.hello(a, ["stripe"])).toBe("hello");
    expect(await verbs.hello(a, ["stripe", "job/mail"])).toBe("hello");
    expect(await verbs.hello(b, ["x"])).toBe("hello");
    expect(await there()).toEqual([["stripe", "job/mail"], ["x"]]);
    expect(await verbs.goodbye(b)).toBe("goodbye");
    expect(await there()).toEqual([["stripe", "job/mail"]]);
    await clock.advance(day + 1);
    await verbs.hello(b, ["x"]);
    expect(await there()).toEqual([["x"]]);
  });

  it("wakes those who listen, lane by lane", async () => {
    const { verbs } = suite();
    expect(await verbs.wake(["stripe", "job/mail"])).toBe(2);
  });
}
