import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { Engine } from "../../src/worker/engine.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { defineJob } from "../../src/job/define.ts";
import { enqueue } from "../../src/job/enqueue.ts";
import type { Prunable } from "../../src/ledger/prune.ts";
import { createOnce } from "../../src/once.ts";
import { runAction } from "../../src/action/run.ts";
import { scheduleUpkeep } from "../../src/cli/upkeep.ts";
import { prune } from "../../src/recover/prune.ts";
import { type App, effect, event, openApp } from "../handler/support.ts";
import { openSession } from "../ledger/sessions.ts";
import { type Bench, describeOnServer, freshLane, openBench, urlOf } from "../ledger/support.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith } from "../support/postgres.ts";

const day = 86_400_000;
const keys = { payloads: "35 days", keys: "35 days" };
/** Events from before what is recorded now, by the sender's clock; the ledger asks about these alone. */
const hoursAgo = (hours: number): number => Math.floor(Date.now() / 1000) - hours * 3600;

describeWith("newest", "pruning beside live traffic", (database) => {
  let clock: Clock;
  const apps: App[] = [];
  const open = async (): Promise<App> => {
    const app = await openApp(database().url, { source: { answer: "inline" } });
    app.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
    apps.push(app);
    return app;
  };
  let own: Database | undefined;
  beforeAll(async () => {
    const url = urlOf(database);
    if (url === undefined) return;
    own = pgDatabase(url, { max: 1 });
    await migrate(own);
    clock = await fakeClock(own);
  });
  afterAll(() => own?.close());
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
  });
  const pruneAll = (app: App, batch = 500): ReturnType<typeof prune> =>
    prune(app.engine as never, { retention: keys, batch });

  it("racing with duplicates takes no second effect of any of them", async () => {
    // The one that prunes has connections of its own, which no traffic keeps it from.
    const [app, other, pruner] = [await open(), await open(), await open()];
    const events = Array.from({ length: 40 }, (_, i) =>
      event("customer.updated", { id: `evt_race_${i}`, created: hoursAgo(3) }),
    );
    for (const one of events) expect(await app.deliver(one)).toMatchObject({ outcome: "done" });
    await clock.advance(36 * day);
    let pruning = true;
    const outcomes = new Set<string>();
    const late = async (from: App): Promise<void> => {
      // Until the last key is gone, and once more. A machine that is too busy to answer says so, and is asked again.
      for (let last = false; !last;) {
        last = !pruning;
        const answers = await Promise.all(events.map((one) => from.deliver(one)));
        for (const { outcome, status } of answers) {
          if (status === 503) last = false;
          else outcomes.add(`${status} ${outcome}`);
        }
      }
    };
    const traffic = [late(app), late(other)];
    const { keys: gone } = await pruneAll(pruner, 3);
    pruning = false;
    await Promise.all(traffic);
    expect(gone).toBe(40);
    expect([...outcomes].filter((outcome) => outcome !== "200 duplicate")).toEqual(["200 parked"]);
    for (const { id } of events) expect(await app.effectsOf(id)).toEqual(["done"]);
  });

  it("a duplicate that comes while its key is being deleted waits for nobody", async () => {
    const app = await open();
    const one = event("customer.updated", { created: hoursAgo(3), account: "acct_open" });
    await app.deliver(one);
    await clock.advance(36 * day);
    const session = await openSession(database().url);
    await session.query("begin");
    await session.query("select onceward.prune('keys', '35 days')");
    expect(await app.deliver(one)).toMatchObject({ status: 200, outcome: "duplicate" });
    await session.query("commit");
    expect(await app.deliver(one)).toMatchObject({ status: 200, outcome: "parked" });
    expect(await app.effectsOf(one.id)).toEqual(["done"]);
    await session.end();
  });

  it("parks an unknown event from the time of keys that are gone, until a person decides", async () => {
    const app = await open();
    const account = "acct_known";
    const known = event("customer.updated", { created: hoursAgo(3), account });
    await app.deliver(known);
    await clock.advance(36 * day);
    await pruneAll(app);
    const older = event("customer.updated", { created: hoursAgo(4), account });
    expect(await app.deliver(older)).toMatchObject({ status: 200, outcome: "parked" });
    expect(await app.deliver(older)).toMatchObject({ status: 200, outcome: "parked" });
    expect(await app.look(`stripe/${account}`, older.id)).toMatchObject({
      state: "unknown",
      attempt: 0,
      reason: "older than the keys that are kept: it may have taken effect before",
    });
    // Without a handler too: a handler that comes later must not bring it to run by itself.
    const unhandled = event("customer.deleted", { created: hoursAgo(4), account });
    expect(await app.deliver(unhandled)).toMatchObject({ outcome: "parked" });
    expect(await app.effectsOf(older.id)).toEqual([]);
    // Another scope has lost nothing.
    const elsewhere = event("customer.updated", { created: hoursAgo(4), account: "acct_1" });
    expect(await app.deliver(elsewhere)).toMatchObject({ outcome: "done" });
    await app.engine.ledger.verbs.replay([{ scope: `stripe/${account}`, key: older.id }], { actor: "ann" });
    expect(await app.deliver(older)).toMatchObject({ outcome: "done" });
    expect(await app.effectsOf(older.id)).toEqual(["done"]);
  });

  it("runs an unknown event that is younger than all keys that are gone", async () => {
    const app = await open();
    const { rows } = await app.engine.database.query("select max(until)::text as until from onceward.pruned");
    const until = Date.parse(rows[0]?.["until"] as string);
    const younger = event("customer.updated", { created: Math.ceil((until + 6 * 60_000) / 1000) });
    expect(await app.deliver(younger)).toMatchObject({ outcome: "done" });
  });

  it("leaves a task that somebody holds for the next round, and does not wait", async () => {
    const app = await open();
    const [held, free] = [event("customer.updated"), event("customer.updated")];
    for (const one of [held, free]) await app.deliver({ ...one, account: "acct_held" });
    await clock.advance(36 * day);
    const session = await openSession(database().url);
    await session.query("begin");
    await session.query("select 1 from onceward.task where key = $1::text for update", [held.id]);
    expect(await pruneAll(app)).toMatchObject({ keys: expect.any(Number) });
    expect(await app.stateOf("stripe/acct_held", free.id)).toBe(undefined);
    expect(await app.stateOf("stripe/acct_held", held.id)).toBe("done");
    await session.query("rollback");
    await session.end();
    expect(await pruneAll(app)).toMatchObject({ keys: 1 });
    expect(await app.stateOf("stripe/acct_held", held.id)).toBe(undefined);
  });

  it("is done by serve at the times of the configuration", async () => {
    const scope = "stripe/upkeep";
    const bench = await openBench(pgDatabase(database().url, { max: 2 }));
    await bench.ledger.recordAndClaim({ scope, key: "old", body: "personal" });
    await bench.ledger.complete({ scope, key: "old", attempt: 1 });
    await clock.advance(91 * day);
    const once = createOnce({ database: database().url, pollMs: 50 });
    scheduleUpkeep({ once: once as never, retention: { cron: "* * * * * *" } });
    await once.start();
    while ((await bench.ledger.verbs.payload({ scope, key: "old" })) !== null)
      await new Promise(setImmediate);
    expect(await bench.ledger.verbs.look({ scope, key: "old" })).toMatchObject({ state: "done" });
    await once.stop();
    await bench.database.close();
  });
});

describeWith("newest", "pruning jobs and actions", (database) => {
  it("keeps keys that somebody chose, and what a task would enqueue again", async () => {
    const engine = new Engine(pgDatabase(database().url), { pollMs: 50 });
    await migrate(engine.database);
    const clock = await fakeClock(engine.database);
    const mail = defineJob(engine, "mail", () => undefined);
    const parent = defineJob(engine, "parent", { maxAttempts: 1 }, async ({ enqueue: child }) => {
      await child(mail, { of: "parent" });
      throw new Error("after the child");
    });
    await engine.start();
    await runAction(engine as never, "charge:1", async () => 1);
    const chosen = await enqueue(engine as never, mail, undefined, { key: "order:1" });
    const passing = await enqueue(engine as never, mail, undefined);
    const dead = await enqueue(engine as never, parent, undefined);
    const count = async (scope: string, where: string): Promise<unknown> => {
      const { rows } = await engine.database.query(
        `select to_jsonb(count(*)) as n from onceward.task where scope = $1::text and ${where}`,
        [scope],
      );
      return rows[0]?.["n"];
    };
    while (
      (await count("job/mail", "state = 'done'")) !== 3 ||
      (await count("job/parent", "state = 'dead'")) !== 1
    )
      await new Promise(setImmediate);
    await clock.advance(36 * day);
    const retention = { states: { dead: { keys: "forever" } }, ...keys };
    await prune(engine as never, { retention });
    const { verbs } = engine.ledger;
    expect(await verbs.look(passing)).toBe(null);
    for (const task of [chosen, dead]) expect(await verbs.look(task)).not.toBe(null);
    expect(await count("action", "true")).toBe(1);
    // The child of what is dead: revived, its parent enqueues it again, and it is still the same task.
    expect(await count("job/mail", "cause is not null")).toBe(1);
    await verbs.replay([dead]);
    while ((await count("job/parent", "state = 'dead'")) !== 1) await new Promise(setImmediate);
    expect(await count("job/mail", "cause is not null")).toBe(1);
    await prune(engine as never, { retention, lane: "job/mail" });
    expect(await verbs.look(chosen)).not.toBe(null);
    await prune(engine as never, {
      retention: { lanes: { "job/mail": { keys: "35 days" } } },
      lane: "job/mail",
    });
    expect(await verbs.look(chosen)).toBe(null);
    await engine.stop();
    await engine.database.close();
  });
});

const kindByKind = (bench: () => Bench): void => {
  const olderThanMs = 90 * day;
  const pruneOnly = async (what: Prunable, more: object = {}): Promise<number> => {
    let [sum, after]: [number, string | null] = [0, null];
    do {
      const done: { pruned: number; after: string | null } = await bench().ledger.verbs.prune({
        what,
        olderThanMs,
        max: 2,
        after,
        ...more,
      });
      [sum, after] = [sum + done.pruned, done.after];
    } while (after !== null);
    return sum;
  };

  it("walks over everything in small batches, and counts in a dry run without a change", async () => {
    const { ledger, clock } = bench();
    const lane = freshLane();
    for (const [i, scope] of [lane, `${lane}-other`, `${lane}/a`, `${lane}/b`, `${lane}/b`].entries()) {
      await ledger.recordAndClaim({ scope, key: `${i}` });
      await ledger.complete({ scope, key: `${i}`, attempt: 1 });
    }
    await clock.advance(91 * day);
    expect(await pruneOnly("payloads", { lane, dryRun: true })).toBe(4);
    expect(await pruneOnly("payloads", { lane })).toBe(4);
    expect(await pruneOnly("payloads", { lane })).toBe(0);
    expect(await ledger.verbs.payload({ scope: `${lane}-other`, key: "1" })).toBe("null");
    expect(await pruneOnly("keys", { lane, dryRun: true })).toBe(4);
    expect(await pruneOnly("keys", { lane, exceptLanes: [`${lane}/b`] })).toBe(2);
    expect(await pruneOnly("keys", { lane })).toBe(2);
  });

  it("steps go when their task is done or can never run again", async () => {
    const { ledger, clock } = bench();
    const { verbs } = ledger;
    const scope = freshLane();
    for (const key of ["done", "cancelled", "dead"]) {
      await ledger.recordAndClaim({ scope, key });
      await verbs.saveSteps(
        ["a", "b"].map((name) => ({ scope, key, attempt: 1, name, state: "done" as const, value: "1" })),
      );
    }
    await verbs.complete([{ scope, key: "done", attempt: 1 }]);
    await verbs.cancel({ scope, key: "cancelled" });
    await verbs.fail([{ scope, key: "dead", attempt: 1, reason: "x", retry: "never" }]);
    await clock.advance(91 * day);
    expect(await pruneOnly("steps", { lane: scope })).toBe(2);
    expect(await verbs.look({ scope, key: "cancelled" })).toMatchObject({
      steps: [{ name: "a" }, { name: "b" }],
    });
    await pruneOnly("payloads", { lane: scope });
    expect(await pruneOnly("steps", { lane: scope })).toBe(2);
    expect(await verbs.look({ scope, key: "dead" })).toMatchObject({ steps: [{ name: "a" }, { name: "b" }] });
  });

  it("the log goes, but not of what still wants something; the audit has a rule of its own", async () => {
    const { ledger, clock, database } = bench();
    const { verbs } = ledger;
    const lane = freshLane();
    for (const key of ["dead", "revived"]) {
      await ledger.recordAndClaim({ scope: lane, key });
      await verbs.fail([{ scope: lane, key, attempt: 1, reason: "x", retry: "never" }]);
    }
    await verbs.replay([{ scope: lane, key: "revived" }], { actor: "ann" });
    const claimed = await verbs.claim({ scope: lane, key: "revived" }, { leaseMs: day, worker: "w" });
    await verbs.complete([
      { scope: lane, key: "revived", attempt: (claimed as { attempt: number }).attempt },
    ]);
    await verbs.prune({ what: "payloads", olderThanMs, lane, actor: "ann", reason: "space" });
    await clock.advance(91 * day);
    expect(await pruneOnly("log", { lane })).toBe(2);
    expect(await verbs.look({ scope: lane, key: "dead" })).toMatchObject({ log: [{ what: "dead" }] });
    const audit = async (): Promise<unknown> => {
      const { rows } = await database.query(
        "select jsonb_agg(to_jsonb(a) order by changed_at) as it from onceward.audit a where scope = $1::text and what like 'pruned%'",
        [lane],
      );
      return rows[0]?.["it"];
    };
    expect(await audit()).toMatchObject([{ actor: "ann", what: "pruned payloads", reason: "space" }]);
    expect(await pruneOnly("audit", { lane })).toBeGreaterThan(0);
    expect(await audit()).toBe(null);
  });

  it("moves go but the last of each subject; effect keys go only when asked", async () => {
    const { ledger, clock } = bench();
    const { verbs } = ledger;
    const machine = freshLane();
    const move = { machine, subject: "s", from: ["a", "b"], initial: "a" };
    await verbs.move({ ...move, move: "go", to: "b" });
    await verbs.move({ ...move, move: "back", to: "a" });
    await verbs.move({ ...move, move: "go", to: "b" });
    const scope = `effect/${machine}`;
    await verbs.once("k", { scope });
    await clock.advance(91 * day);
    expect(await pruneOnly("moves", { lane: `machine/${machine}` })).toBe(2);
    expect(await verbs.machineState(machine, "s")).toMatchObject({
      state: "b",
      version: 3,
      moves: [{ version: 3 }],
    });
    expect(await verbs.once("k", { scope })).toBe(false);
    expect(await pruneOnly("effects", { lane: scope })).toBe(1);
    expect(await verbs.once("k", { scope })).toBe(true);
  });
};

// Its first cases also run on PGlite, in the conformance suite.
describeOnServer("newest", "pruning, kind by kind", kindByKind);
describeOnServer("oldest", "pruning, kind by kind", kindByKind);
