import { expect, it, vi } from "vitest";
import type { ReplayProgress } from "../../src/recover/replay.ts";
import { deliveryOf, event } from "../handler/support.ts";
import { describeOnCall, type OnCall } from "./support.ts";

const by = { actor: "ann", reason: "the price is back" };
const minute = 60_000;

/** A worker without handlers: claims in batches, and writes an effect for each in the commit that completes it. */
async function runAll({ once, count }: OnCall, lane: string, ended: () => boolean): Promise<void> {
  const { ledger } = once.engine;
  for (;;) {
    const last = ended();
    const { tasks } = await ledger.verbs.claimDue([lane], { max: 250, leaseMs: minute, worker: "w" });
    if (tasks.length > 0) {
      await once.database.transaction(async (tx, queryable) => {
        const keys = tasks.map(({ key }) => key);
        await tx.query("insert into effect (event) select unnest($1::text[])", [keys]);
        const completed = await ledger.within(queryable).complete(tasks);
        expect(new Set(completed)).toEqual(new Set(["done"]));
      });
    } else if (last) {
      const open = `select count(*) from onceward.task where scope = '${lane}' and due_at is not null`;
      if ((await count(open)) === 0) return;
    }
    if (tasks.length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

describeOnCall("newest", "replay by filter", (bench) => {
  it("runs 10,000 dead events once each, beside two workers", async () => {
    const { once, addDead, count } = bench();
    await addDead("bulk", 10_000);
    let ended = false;
    const told: ReplayProgress[] = [];
    const replaying = once.recovery
      .replayWhere(
        { states: ["dead"], lane: "bulk" },
        { ...by, rate: Infinity, onProgress: (progress) => told.push(progress) },
      )
      .finally(() => (ended = true));
    const workers = [runAll(bench(), "bulk", () => ended), runAll(bench(), "bulk", () => ended)];
    expect(await replaying).toMatchObject({ found: 10_000, total: 10_000 });
    await Promise.all(workers);
    expect(told.length).toBeGreaterThan(10);
    expect(await count("select count(*) from effect")).toBe(10_000);
    expect(await count("select count(distinct event) from effect")).toBe(10_000);
    const audited = `select count(distinct key) from onceward.audit where what = 'replayed' and scope = 'bulk'
      and actor = 'ann' and reason = 'the price is back'`;
    expect(await count(audited)).toBe(10_000);
    expect(await count("select count(*) from onceward.audit where what = 'replayed'")).toBe(10_000);
    const [end, begin] = await once.recovery
      .audit({ since: new Date(0), max: 1, what: "replay ended" })
      .then(async (ends) => [ends[0], (await once.recovery.audit({ what: "replay begun" }))[0]]);
    expect(begin?.detail).toContain("10000 tasks");
    expect(end?.detail).toContain("10000 of 10000 tasks");
  });

  it("leaves live deliveries and late duplicates their one effect", async () => {
    const { once, addDead, count } = bench();
    await addDead("stripe", 300);
    await once.database.query("delete from effect");
    const billing = once.sources.get("stripe")!;
    await once.start();
    const live = Array.from({ length: 50 }, (_, i) => event("invoice.paid", { id: `evt_live_${i}` }));
    const late = Array.from({ length: 50 }, (_, i) => {
      const id = `evt_${i * 6 + 1}`;
      return event("invoice.paid", { id, data: { object: { id: `in_${id}` } } });
    });
    const replaying = once.recovery.replayWhere({ lane: "stripe" }, { ...by, rate: Infinity });
    const answers = await Promise.all(
      [...live, ...late, ...live, ...late].map((sent) => billing.receive(deliveryOf(JSON.stringify(sent)))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await replaying).toMatchObject({ found: 300, total: 300 });
    const open = "select count(*) from onceward.task where scope = 'stripe' and state <> 'done'";
    await vi.waitUntil(async () => (await count(open)) === 0, { timeout: 120_000, interval: 50 });

    // Again, on purpose: the handler runs once more, and what it guards by an effect key does not.
    const task = { scope: "stripe", key: "evt_void" };
    await billing.receive(deliveryOf(JSON.stringify(event("invoice.updated", { id: task.key }))));
    await vi.waitUntil(async () => (await count(open)) === 0, { timeout: 120_000, interval: 50 });
    expect(await once.recovery.replay([task], by)).toEqual([{ ...task, outcome: "done" }]);
    expect(await once.recovery.replay([task], { ...by, again: true })).toEqual([
      { ...task, outcome: "replayed again" },
    ]);
    await vi.waitUntil(async () => (await count(open)) === 0, { timeout: 120_000, interval: 50 });
    expect(await count("select count(*) from effect where event = 'evt_void seen'")).toBe(2);
    expect(await count("select count(*) from effect where event = 'evt_void voided'")).toBe(1);
    await once.database.query("delete from effect where event like 'evt_void%'");
    await once.engine.stop(); // The tests below look at tasks that nobody runs.
    expect(await count("select count(*) from effect")).toBe(350);
    expect(await count("select count(distinct event) from effect")).toBe(350);
  });

  it("goes on after its process died, and takes nothing twice, not even what died again meanwhile", async () => {
    const { once, addDead, count } = bench();
    const { recovery, engine } = once;
    await addDead("half", 700);
    const filter = JSON.stringify({ lane: "half", states: ["dead"] });
    const { verbs } = engine.ledger;
    expect(await verbs.call("replay_begin", ["half way", filter, "false", null, "ann", "why not"])).toEqual({
      name: "half way",
      found: 700,
    });
    expect(await verbs.call("replay_next", ["half way", "300"])).toMatchObject({ total: 300, ended: false });
    expect(await recovery.unfinishedReplays()).toMatchObject([
      { name: "half way", actor: "ann", reason: "why not", found: 700, total: 300 },
    ]);
    const { tasks } = await verbs.claimDue(["half"], { max: 100, leaseMs: minute, worker: "w" });
    expect(tasks).toHaveLength(100);
    await verbs.fail(tasks.map((task) => ({ ...task, reason: "still no price", retry: "never" as const })));
    expect(await recovery.resumeReplay("half way")).toMatchObject({ found: 700, total: 700 });
    expect(await recovery.unfinishedReplays()).toEqual([]);
    expect(await count("select count(*) from onceward.audit where scope = 'half'")).toBe(700);
    expect(await count("select count(*) from onceward.task where scope = 'half' and state = 'dead'")).toBe(
      100,
    );
    await expect(recovery.resumeReplay("half way")).rejects.toMatchObject({ code: "value_invalid" });
  });

  it("gives each task its own time to start, so that no more than the rate start a second", async () => {
    const { once, addDead, clock } = bench();
    await clock.freeze();
    await addDead("rated", 600);
    const replayed = await once.recovery.replayWhere({ lane: "rated" }, { ...by, rate: 10 });
    expect(replayed).toMatchObject({ total: 600, last_due_in_ms: 59_900 });
    const due = (): Promise<number> =>
      once.engine.ledger.verbs
        .claimDue(["rated"], { max: 600, leaseMs: minute, worker: "w" })
        .then(({ tasks }) => tasks.length);
    expect(await due()).toBe(1);
    await clock.advance(1_000);
    expect(await due()).toBe(10);
    await clock.advance(2_000);
    expect(await due()).toBe(20);
  });

  it("takes what is dead, failed, or ignored and handled by now, and nothing else", async () => {
    const { once, addDead, count } = bench();
    const { ledger } = once.engine;
    const scope = "stripe/acct_1";
    await addDead(scope, 1);
    const add = (key: string, more: object = {}): Promise<unknown> =>
      ledger.record({ scope, key, type: "invoice.paid", body: "{}", ...more });
    await add("ignored", { ignored: "no handler" });
    await add("unhandled", { ignored: "no handler", type: "customer.created" });
    await add("scheduled", { delayMs: 60 * minute });
    await ledger.record({
      scope: `${scope}/!conflict`,
      key: "odd",
      type: "invoice.paid",
      ignored: "other content",
    });
    for (const key of ["failed", "sleeping", "done", "running", "unknown", "pruned"]) {
      await ledger.recordAndClaim({ scope, key, type: "invoice.paid", body: "{}" });
    }
    const claim = (key: string) => ({ scope, key, attempt: 1 });
    await ledger.fail({ ...claim("failed"), reason: "no price", retry: { afterMs: 60 * minute } });
    await ledger.fail({ ...claim("sleeping"), reason: "no price", retry: { afterMs: 0 } });
    await ledger.verbs.claim({ scope, key: "sleeping" }, { leaseMs: minute, worker: "w" });
    await ledger.saveStep({
      scope,
      key: "sleeping",
      attempt: 2,
      name: "night",
      state: "waiting",
      value: "{}",
    });
    await ledger.verbs.defer({ scope, key: "sleeping", attempt: 2 }, { delayMs: 60 * minute });
    await ledger.complete(claim("done"));
    await ledger.fail({ ...claim("unknown"), reason: "?", retry: "unknown" });
    await ledger.fail({ ...claim("pruned"), reason: "no price", retry: "never" });
    await once.database.query("delete from onceward.payload where key = 'pruned'");

    // By name, too; but what came with other content runs if a person says so.
    const named = ["unhandled", "running", "nowhere"].map((key) => ({ scope, key }));
    expect((await once.recovery.replay(named, by)).map(({ outcome }) => outcome)).toEqual([
      "no handler",
      "running",
      "missing",
    ]);
    expect(
      await count("select count(*) from onceward.task where key = 'unhandled' and state = 'ignored'"),
    ).toBe(1);
    // What a dry run rehearses is what a replay would take.
    const wanted = await once.recovery.replayable({ lane: scope });
    expect(wanted.map(({ key }) => key).toSorted()).toEqual(["evt_1", "failed", "ignored"]);
    expect(await once.recovery.countReplayable({ lane: scope })).toBe(3);
    expect(await once.recovery.replayWhere({ lane: scope }, { ...by, rate: 1 })).toMatchObject({ total: 3 });
    const replayed = await once.recovery.audit({ scope });
    expect(replayed.map(({ key, detail }) => `${key}: ${detail}`).toSorted()).toEqual([
      "evt_1: it was dead",
      "failed: it was waiting",
      "ignored: it was ignored",
    ]);
    // Again: what is done too, in a new generation.
    expect(await once.recovery.countReplayable({ lane: scope }, { again: true })).toBe(1);
    await once.recovery.replayWhere({ lane: scope, states: ["done"] }, { ...by, again: true });
    expect(await count("select generation from onceward.task where key = 'done'")).toBe(2);
    await expect(once.recovery.replayWhere({ states: ["done"] }, by)).rejects.toMatchObject({
      code: "value_invalid",
    });
    await expect(once.recovery.replayWhere({}, { actor: " " })).rejects.toMatchObject({
      code: "value_invalid",
    });
  });

  it("of the same tasks by two people at once: each task is replayed once", async () => {
    const { once, addDead, count } = bench();
    await addDead("twice", 400);
    const all = await Promise.all(
      ["ann", "bob"].map((actor) => once.recovery.replayWhere({ lane: "twice" }, { actor, rate: Infinity })),
    );
    expect(all.reduce((sum, { total }) => sum + total, 0)).toBe(400);
    expect(await count("select count(*) from onceward.audit where scope = 'twice'")).toBe(400);
  });
});
