import { describe, expect, it, vi } from "vitest";
import type { NewTask } from "../../src/ledger/task.ts";
import { deliveryOf, event } from "../handler/support.ts";
import { watchedSession } from "../ledger/plans.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { describeOnCall, type OnCall } from "./support.ts";

const minute = 60_000;
const lease = { leaseMs: minute, worker: "w1" };

describeOnCall("newest", "on call", (bench) => {
  const tools = () => {
    const { once, ...rest } = bench();
    const { ledger } = once.engine;
    return { ...rest, once, ledger, verbs: ledger.verbs, recovery: once.recovery };
  };
  /** Records a task, claims it, and fails it for good. */
  async function addDead(task: NewTask, reason: string): Promise<void> {
    const { ledger } = tools();
    await ledger.recordAndClaim(task);
    await ledger.fail({ scope: task.scope, key: task.key, attempt: 1, reason, retry: "never" });
  }

  describe("status", () => {
    it("counts by scope and state, names the oldest, and puts failures of one kind together", async () => {
      const { ledger, verbs, recovery, clock } = tools();
      const scope = "status";
      for (const key of ["runs", "unknown", "done"]) await ledger.recordAndClaim({ scope, key });
      for (const n of [1, 2, 3]) await addDead({ scope, key: `dead ${n}` }, `No such price: price_${n}9x`);
      await ledger.fail({ scope, key: "unknown", attempt: 1, reason: "timed out", retry: "unknown" });
      await ledger.complete({ scope, key: "done", attempt: 1 });
      await ledger.record({ scope, key: "due" });
      await ledger.record({ scope, key: "later", delayMs: 10 * minute });
      await ledger.record({ scope, key: "ignored", ignored: "no handler" });
      await ledger.record({ scope, key: "cancelled" });
      await verbs.cancel({ scope, key: "cancelled" });
      await verbs.hello("worker 1", ["status"]);
      await clock.advance(5_000);

      const status = await recovery.status();
      const counts = { due: 1, later: 1, running: 1, dead: 3, unknown: 1, ignored: 1, cancelled: 1 };
      const here = status.scopes.find((one) => one.scope === scope);
      expect(here).toMatchObject({ ...counts, done: null });
      expect(here?.oldest_due_ms).toBeGreaterThanOrEqual(5_000);
      expect(status.oldest_due).toMatchObject({ scope, key: "due" });
      expect(status.oldest_running).toMatchObject({ scope, key: "runs" });
      expect(status.failures).toMatchObject([
        { error: "No such price: …", count: 3, dead: 3, example: { scope } },
        { error: "timed out", count: 1, dead: 0 },
      ]);
      expect(status.workers).toMatchObject([{ id: "worker 1", lanes: ["status"], there: true }]);
      expect([null, 0, 1]).toContain(status.done_about);

      const exact = await recovery.status({ exact: true });
      expect(exact.scopes.find((one) => one.scope === scope)).toMatchObject({ ...counts, done: 1 });
      expect(exact.done_about).toBe(null);

      await clock.advance(60 * minute);
      expect((await recovery.status()).failures).toEqual([]);
      expect((await recovery.status()).workers).toMatchObject([{ there: false }]);
    });
  });

  describe("stuck", () => {
    it("says why: each reason, and nothing that moves", async () => {
      const { ledger, verbs, recovery, clock } = tools();
      const lane = "stuck";
      const reasons = async (olderThanMs = minute): Promise<Record<string, string>> => {
        const { tasks } = await recovery.stuck({ lane, olderThanMs });
        return Object.fromEntries(tasks.map(({ key, reason }) => [key, reason]));
      };
      await ledger.recordAndClaim({ scope: lane, key: "lapses" });
      await ledger.record({ scope: `${lane}/a`, key: "first", serial: "g" });
      await ledger.record({ scope: `${lane}/a`, key: "second", serial: "g" });
      await verbs.claim({ scope: `${lane}/a`, key: "first" }, lease);
      await verbs.claim({ scope: `${lane}/a`, key: "second" }, lease);
      await ledger.record({ scope: lane, key: "due" });
      await ledger.record({ scope: lane, key: "later", delayMs: 60 * minute });
      await ledger.recordAndClaim({ scope: lane, key: "no handler" });
      const reason = "stripe: no handler for invoice.paid.";
      await ledger.fail({
        scope: lane,
        key: "no handler",
        attempt: 1,
        reason,
        retry: { afterMs: 60 * minute },
      });
      await addDead({ scope: lane, key: "dead" }, "broken");
      await ledger.recordAndClaim({ scope: lane, key: "unknown" });
      await ledger.fail({ scope: lane, key: "unknown", attempt: 1, reason: "?", retry: "unknown" });
      await ledger.recordAndClaim({ scope: lane, key: "done" });
      await ledger.complete({ scope: lane, key: "done", attempt: 1 });
      const parked = { dead: "dead", unknown: "unknown outcome", "no handler": "no handler" };
      expect(await reasons(60 * minute)).toEqual(parked);

      await clock.advance(2.5 * minute);
      const late = {
        ...parked,
        lapses: "lease run out",
        first: "lease run out",
        second: "waiting for its group",
      };
      expect(await reasons()).toEqual({ ...late, due: "no worker seen" });
      await verbs.hello("elsewhere", ["other"]);
      expect(await reasons()).toEqual({ ...late, due: "no handler" });
      await verbs.hello("here", [lane]);
      expect(await reasons()).toEqual({ ...late, due: "no free worker" });

      const stuck = await recovery.stuck({ lane, max: 1 });
      expect(stuck.groups).toContainEqual({
        reason: "lease run out",
        scope: lane,
        count: 1,
        oldest_at: expect.any(String),
      });
      expect(stuck.tasks.filter((task) => task.reason === "lease run out")).toHaveLength(1);
      expect(stuck.tasks.find(({ key }) => key === "second")).toMatchObject({
        behind: "first",
        behind_state: "running",
      });
      expect(await recovery.stuck({ lane: "none" })).toEqual({ groups: [], tasks: [], ignored: [] });
      const patient = await recovery.stuck({ lane, olderThanMs: 10 * minute });
      expect(new Set(patient.tasks.map((task) => task.reason))).toEqual(new Set(Object.values(parked)));
    });

    it("tells ignored types that have a handler by now from those that have none", async () => {
      const { ledger, recovery } = tools();
      const scope = "stripe/acct_9";
      for (const type of ["invoice.paid", "customer.created"])
        await ledger.record({ scope, key: type, type, ignored: "no handler" });
      const { ignored } = await recovery.stuck({ lane: scope });
      expect(ignored).toMatchObject([
        { scope, type: "customer.created", count: 1, handled: false },
        { scope, type: "invoice.paid", count: 1, handled: true },
      ]);
    });
  });

  it("list finds by state, type, time, account and error, page by page", async () => {
    const { ledger, recovery, clock } = tools();
    const lane = "list";
    const start = new Date(await clock.now());
    for (const account of ["acct_1", "acct_2"]) {
      const scope = `${lane}/${account}`;
      await addDead({ scope, key: "a", type: "invoice.paid" }, "No such price: 100% gone");
      await addDead({ scope, key: "b", type: "invoice.voided" }, "timed out");
    }
    await clock.advance(minute);
    const later = new Date(await clock.now());
    await ledger.record({ scope: `${lane}/acct_1/test`, key: "c", type: "customer.created" });
    await ledger.recordAndClaim({ scope: "job/acct_1", key: "d" });
    const found = async (filter: Parameters<typeof recovery.list>[0]): Promise<string[]> =>
      (await recovery.list({ lane, ...filter })).map(({ scope, key }) => `${scope.slice(5)} ${key}`);
    expect(await found({})).toEqual(["acct_1/test c", "acct_2 b", "acct_2 a", "acct_1 b", "acct_1 a"]);
    expect(await found({ states: ["dead"], type: "invoice.*", account: "acct_2" })).toEqual([
      "acct_2 b",
      "acct_2 a",
    ]);
    expect(await found({ account: "acct_1", lane: undefined })).toEqual([
      "acct_1/test c",
      "acct_1 b",
      "acct_1 a",
    ]);
    expect(await found({ error: "no SUCH price: 100%" })).toEqual(["acct_2 a", "acct_1 a"]);
    expect(await found({ type: "invoice.voided", contains: "b", scope: "list/acct_1" })).toEqual([
      "acct_1 b",
    ]);
    expect(await found({ since: later })).toEqual(["acct_1/test c"]);
    expect(await found({ since: start, until: later, max: 1 })).toEqual(["acct_2 b"]);
    expect(await found({ states: ["failed"] })).toEqual([]);
    expect(await found({ states: ["waiting", "dead"], error: "'; drop table onceward.task; --" })).toEqual(
      [],
    );
    const [first, second] = await recovery.list({ lane, max: 2 });
    expect(await found({ before: second, max: 2 })).toEqual(["acct_2 a", "acct_1 b"]);
    expect(await found({ before: first, key: "a" })).toEqual(["acct_2 a", "acct_1 a"]);
    await expect(found({ states: ["asleep" as "dead"] })).rejects.toMatchObject({ code: "value_invalid" });
  });

  it("show tells the whole story: failures, steps, effect keys, jobs, moves, causes, who did what", async () => {
    const { ledger, verbs, recovery, clock } = tools();
    const cause = { scope: "stripe", key: "evt_story" };
    const task = { scope: "job/story", key: "j1" };
    await ledger.recordAndClaim({ ...cause, type: "invoice.paid", body: "bytes" });
    await ledger.recordAndClaim({ ...task, cause, body: "{}" });
    await ledger.complete({ ...cause, attempt: 1 });
    await ledger.saveStep({ ...task, attempt: 1, name: "render", state: "done", value: '"secret"' });
    await clock.advance(1_000);
    await verbs.once("credit:1", { cause: task });
    await verbs.move({
      machine: "story",
      subject: "s1",
      move: "pay",
      from: ["open"],
      to: "paid",
      initial: "open",
      cause: task,
    });
    await ledger.record({ scope: "job/mail", key: "m1", cause: task });
    await ledger.fail({ ...task, attempt: 1, reason: "mail is down", retry: "never" });
    await recovery.replay([task], { actor: "ann", reason: "mail is up" });

    expect(await recovery.show(task)).toMatchObject({
      ...task,
      state: "waiting",
      attempt: 2,
      payload_bytes: 2,
      steps: [{ name: "render", state: "done", attempt: 1 }],
      log: [
        { what: "dead", attempt: 1, detail: "mail is down" },
        { what: "replayed", actor: "ann", detail: "mail is up" },
      ],
      effects: [{ scope: "effect", key: "credit:1" }],
      enqueued: [{ scope: "job/mail", key: "m1", state: "waiting" }],
      moves: [{ machine: "story", subject: "s1", from: "open", to: "paid" }],
      causes: ["stripe evt_story"],
      audit: [{ actor: "ann", what: "replayed", reason: "mail is up", detail: "it was dead" }],
    });
    expect((await recovery.show(cause))?.enqueued).toMatchObject([task]);
    expect(await recovery.show({ scope: "stripe", key: "none" })).toBe(null);
    expect(await recovery.find("j1")).toEqual([task]);
    await ledger.record({ scope: "stripe/#mail", key: "evt_story" });
    expect(await recovery.find("evt_story")).toEqual([cause, { scope: "stripe/#mail", key: "evt_story" }]);
    expect(await recovery.find("none")).toEqual([]);
  });

  it("finds the rows that a task wrote by its commits, and not those of others", async () => {
    const { ledger, recovery, once } = tools();
    const { database } = once;
    await database.query("create table orders (id text primary key, note text)");
    await database.query("create table order_lines (a bigint, b int, primary key (b, a))");
    const work = async (key: string): Promise<void> => {
      await ledger.recordAndClaim({ scope: "rows", key });
      await database.transaction(async (tx, queryable) => {
        await tx.query("insert into orders values ($1, 'by a task'), ($1 || ' changed', 'soon')", [key]);
        await tx.query("insert into order_lines values (1, $1), (9007199254740993, $1)", [key.length]);
        await ledger.within(queryable).complete([{ scope: "rows", key, attempt: 1 }]);
      });
    };
    await work("one");
    await work("three");
    await database.query("update orders set note = 'by a person' where id = 'one changed'");
    expect(await recovery.rowsOf({ scope: "rows", key: "one" })).toEqual({
      tables: [
        {
          table: "order_lines",
          rows: 2,
          keys: [
            { a: 1, b: 3 },
            { a: "9007199254740993", b: 3 },
          ],
        },
        { table: "orders", rows: 1, keys: [{ id: "one" }] },
      ],
      left_out: [],
    });
    expect(await recovery.rowsOf({ scope: "rows", key: "none" })).toBe(null);
  });

  it("counts what is delivered again", async () => {
    const { once, recovery } = tools();
    const sent = deliveryOf(JSON.stringify(event("invoice.paid", { id: "evt_again" })));
    const billing = once.sources.get("stripe")!;
    for (let i = 0; i < 4; i++) expect((await billing.receive(sent)).status).toBe(200);
    const counted = async (): Promise<boolean> =>
      (await recovery.show({ scope: "stripe", key: "evt_again" }))?.deliveries?.again === 3;
    await vi.waitUntil(counted, { timeout: 60_000, interval: 200 });
  });

  it("reads what is unfinished or parked, and not the history", async () => {
    const { once, url } = tools();
    await once.database.query(
      `insert into onceward.task (created_at, finished_at, state, attempt, tries, scope, key)
       select now() - interval '30 days' + i * interval '1 second', now(), 'done', 1, 1, 'history', 'evt_' || i
       from generate_series(1, 30000) as i`,
    );
    // As autovacuum does.
    await once.database.query("analyze onceward.task");
    await once.database.query("select brin_summarize_new_values('onceward.task_created')::text");
    const session = await watchedSession(url);
    try {
      const verbs = new Verbs(session, "onceward");
      for (const [verb, ...args] of [
        ["status"],
        ["stuck"],
        ["whereis", "evt_1"],
        ["story", "job/story", "j1"],
        ["find", '{"states": ["dead", "failed", "ignored"]}'],
        ["replay_count", '{"states": ["dead", "failed", "ignored"]}'],
        ["replay_find", '{"states": ["dead", "failed", "ignored"]}'],
      ] as const) {
        const { scans } = await session.watch(() => verbs.call(verb, args));
        expect(scans.length).toBeGreaterThan(0);
        expect(scans.filter(({ rows }) => rows > 5_000).map((scan) => ({ verb, ...scan }))).toEqual([]);
      }
    } finally {
      await session.end();
    }
  });

  it("keeps who changed what: replays, cancels, answers, signals of people; and nothing that code did", async () => {
    const { ledger, verbs, recovery, once } = tools();
    const scope = "audit";
    for (const key of ["a", "b", "c", "d", "e"]) await ledger.recordAndClaim({ scope, key });
    await ledger.saveStep({ scope, key: "a", attempt: 1, name: "charge", state: "started" });
    await ledger.fail({ scope, key: "a", attempt: 1, reason: "?", retry: "unknown" });
    await ledger.complete({ scope, key: "e", attempt: 1 });
    const ann = { actor: "ann", reason: "I looked" };
    expect(await recovery.resolve({ scope, key: "a" }, { ...ann, step: "none", decision: "done" })).toEqual({
      outcome: "missing",
    });
    await recovery.resolve(
      { scope, key: "a" },
      { ...ann, step: "charge", decision: "done", value: { id: 1 } },
    );
    expect(await recovery.show({ scope, key: "a" })).toMatchObject({
      state: "waiting",
      steps: [{ name: "charge", state: "done" }],
    });
    expect(
      await recovery.cancel(
        [
          { scope, key: "b" },
          { scope, key: "e" },
        ],
        ann,
      ),
    ).toMatchObject([{ outcome: "cancelled" }, { outcome: "done" }]);
    await once.signal({ scope, key: "c" }, "approved", true, { actor: "bob" });
    await once.signal({ scope, key: "c" }, "paid", true);
    await verbs.cancel({ scope, key: "d" }, { reason: "by code" });
    await verbs.replay([{ scope, key: "d" }], { reason: "by code" });
    // Whoever calls the verb in SQL and does not say who he is: the user of the database.
    await once.database.query("select onceward.cancel('audit', 'd')");
    const audit = await recovery.audit({ scope });
    expect(audit.map(({ actor, what, key, reason }) => [actor, what, key, reason]).toReversed()).toEqual([
      ["ann", "resolved", "a", "I looked"],
      ["ann", "replayed", "a", "I looked"],
      ["ann", "cancelled", "b", "I looked"],
      ["bob", "signal", "c", null],
      [new URL(bench().url).username, "cancelled", "d", "cancelled"],
    ]);
    expect(await recovery.audit({ scope, actor: "ann", what: "cancelled", key: "b" })).toHaveLength(1);
    await expect(recovery.cancel([{ scope, key: "c" }], { actor: "" })).rejects.toMatchObject({
      code: "value_invalid",
    });
  });
});

describeOnCall("oldest", "on call", (bench) => {
  it("answers on the oldest Postgres too", async () => {
    const { once, addDead }: OnCall = bench();
    const { recovery } = once;
    await addDead("stripe", 2);
    expect(await recovery.status()).toMatchObject({ scopes: [{ scope: "stripe", dead: 2 }] });
    expect((await recovery.stuck()).groups).toMatchObject([{ reason: "dead", count: 2 }]);
    expect(await recovery.list({ states: ["dead", "failed"] })).toHaveLength(2);
    expect(await recovery.find("evt_1")).toHaveLength(1);
    expect(await recovery.show({ scope: "stripe", key: "evt_1" })).toMatchObject({ state: "dead" });
    expect(await recovery.replayWhere({ states: ["dead"] }, { actor: "ann" })).toMatchObject({ total: 2 });
    expect(await recovery.audit()).toHaveLength(4);
  });
});
