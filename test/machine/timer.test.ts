import { expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import { defineMachine, type MachineDefinition, type Moving } from "../../src/machine/machine.ts";
import { Bench, day, describeOn, describeOnEach, fresh, type Queries } from "./support.ts";

interface Told {
  readonly subject: string;
  readonly after: string | undefined;
}

/** A subscription that is reminded and ends; what its reminders do is told to the test. */
function subscriptions(
  bench: Bench,
  remind: (moving: Moving<undefined, Queries>) => unknown = () => {},
  name = fresh("sub"),
) {
  return defineMachine(bench.engine, name, {
    initial: "active",
    states: {
      active: {},
      past_due: { after: { "1 day": "remind", "3 days": "remind", "1 week": "end" } },
      ended: {},
    },
    moves: {
      fail: { from: ["active"], to: "past_due" },
      fail_again: { from: ["past_due"], to: "past_due", restart: true },
      remind: {
        from: ["past_due"],
        to: "past_due",
        run: (moving: Moving<undefined, Queries>) => remind(moving),
      },
      pay: { from: ["past_due"], to: "active" },
      end: { from: ["past_due"], to: "ended" },
    },
  });
}

function telling(): { told: Told[]; remind: (moving: Moving<undefined, Queries>) => void } {
  const told: Told[] = [];
  return { told, remind: ({ subject, after }) => void told.push({ subject, after }) };
}

const movesOf = (moves: { move: string }[]): string[] => moves.map(({ move }) => move);

describeOnEach("timers", (bench) => {
  it("move a subject that stays, each after its time from when the state was entered", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    await bench().engine.start();
    await sub.move("s1", "fail");
    const { timers, since } = await sub.state("s1");
    expect(timers.map(({ at }) => Math.round((Number(at) - Number(since)) / day))).toEqual([1, 3, 7]);
    await bench().pass(day - 60_000);
    expect(told).toEqual([]);
    await bench().pass(120_000);
    expect(told).toEqual([{ subject: "s1", after: "1 day" }]);
    await bench().pass(2 * day);
    expect(told).toEqual([
      { subject: "s1", after: "1 day" },
      { subject: "s1", after: "3 days" },
    ]);
    expect(await sub.state("s1")).toMatchObject({ state: "past_due", version: 3, since });
    await bench().pass(4 * day);
    expect(await sub.state("s1")).toMatchObject({ state: "ended", version: 4, timers: [] });
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "remind", "remind", "end"]);
  });

  it("are tasks that say what they will do, and the cause of what they did", async () => {
    const sub = subscriptions(bench());
    await bench().engine.start();
    await sub.move("s1", "fail", { cause: { scope: "stripe", key: "evt_1" } });
    const scope = `machine/${sub.name}`;
    expect(await bench().tasks(scope)).toEqual({
      "s1 v1 end after 1 week": "waiting",
      "s1 v1 remind after 1 day": "waiting",
      "s1 v1 remind after 3 days": "waiting",
    });
    expect(await bench().rows("select distinct cause from onceward.task where scope = $1", [scope])).toEqual([
      { cause: "stripe evt_1" },
    ]);
    await bench().pass(day);
    expect((await sub.history("s1")).at(-1)).toMatchObject({ cause: `${scope} s1 v1 remind after 1 day` });
  });

  it("are cancelled by the move that leaves the state, and start anew when it is entered again", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    await bench().engine.start();
    await sub.move("s1", "fail");
    await bench().pass(day);
    await sub.move("s1", "pay");
    expect(await bench().tasks(`machine/${sub.name}`)).toEqual({
      "s1 v1 end after 1 week": "cancelled",
      "s1 v1 remind after 1 day": "done",
      "s1 v1 remind after 3 days": "cancelled",
    });
    await bench().pass(30 * day);
    expect(told).toHaveLength(1);
    await sub.move("s1", "fail");
    await bench().pass(day);
    expect(told).toHaveLength(2);
    expect(await sub.state("s1")).toMatchObject({ state: "past_due", version: 5 });
  });

  it("start anew where a move within the state says so, and only there", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    await bench().engine.start();
    await sub.move("s1", "fail");
    await bench().pass(2 * day);
    await sub.move("s1", "remind");
    expect(told).toEqual([
      { subject: "s1", after: "1 day" },
      { subject: "s1", after: undefined },
    ]);
    await sub.move("s1", "fail_again");
    await bench().pass(day - 60_000);
    expect(told).toHaveLength(2);
    await bench().pass(60_000);
    expect(told.at(-1)).toEqual({ subject: "s1", after: "1 day" });
    await bench().pass(5 * day);
    expect(await sub.state("s1")).toMatchObject({ state: "past_due" });
    await bench().pass(day);
    expect(await sub.state("s1")).toMatchObject({ state: "ended" });
  });

  it("are not there where the transaction of the move was rolled back", async () => {
    const sub = subscriptions(bench());
    await bench().engine.ready();
    const undone = bench().database.transaction(async (tx) => {
      await sub.move("s1", "fail", { tx });
      throw new Error("the handler failed");
    });
    await expect(undone).rejects.toThrow("the handler failed");
    expect(await bench().tasks(`machine/${sub.name}`)).toEqual({});
  });

  it("stay where the transaction of the move that would cancel them was rolled back", async () => {
    const sub = subscriptions(bench());
    await bench().engine.ready();
    await sub.move("s1", "fail");
    const undone = bench().database.transaction(async (tx) => {
      await sub.move("s1", "pay", { tx });
      throw new Error("the handler failed");
    });
    await expect(undone).rejects.toThrow("the handler failed");
    expect(Object.values(await bench().tasks(`machine/${sub.name}`))).toEqual([
      "waiting",
      "waiting",
      "waiting",
    ]);
    expect((await sub.state("s1")).timers).toHaveLength(3);
  });

  it("are tried again when the effects of their move fail, and then take effect once", async () => {
    const failures = [new Error("no mail server"), new Error("no mail server")];
    const table = fresh("reminder");
    const sub = subscriptions(bench(), async ({ tx, subject }) => {
      await tx.query(`insert into ${table} values ($1)`, [subject]);
      const failure = failures.shift();
      if (failure) throw failure;
    });
    await bench().rows(`create table ${table} (subject text)`);
    await bench().engine.start();
    await sub.move("s1", "fail");
    await bench().pass(day);
    expect(await sub.state("s1")).toMatchObject({ version: 1 });
    await bench().pass(60_000);
    await bench().pass(60_000);
    await bench().pass(60_000);
    expect(failures).toEqual([]);
    expect(await bench().rows(`select subject from ${table}`)).toEqual([{ subject: "s1" }]);
    expect(await sub.state("s1")).toMatchObject({ version: 2 });
  });

  it("fire in the order of their times where several became due while no worker ran", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    await sub.move("s1", "fail");
    await bench().advance(30 * day);
    await bench().engine.start();
    // One that came before its turn looks again a second later.
    for (let i = 0; i < 10; i++) await bench().pass(1_000);
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "remind", "remind", "end"]);
    expect(told.map(({ after }) => after)).toEqual(["1 day", "3 days"]);
  });

  it("do not wait for an earlier one that keeps failing", async () => {
    const sub = subscriptions(bench(), () => {
      throw new Error("no mail server");
    });
    await sub.move("s1", "fail");
    await bench().engine.start();
    await bench().pass(7 * day);
    for (let i = 0; i < 30; i++) await bench().pass(1_000);
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "end"]);
    const states = Object.values(await bench().tasks(`machine/${sub.name}`));
    expect(states.toSorted()).toEqual(["cancelled", "cancelled", "done"]);
  });

  it("of one subject leave another alone, also where one's name continues the other's", async () => {
    const sub = subscriptions(bench());
    await bench().engine.start();
    await sub.move("s", "fail");
    await sub.move("s v1", "fail");
    await sub.move("s v1 remind", "fail");
    await sub.move("s v1", "pay");
    const states = Object.entries(await bench().tasks(`machine/${sub.name}`));
    expect(states.filter(([, state]) => state === "cancelled").map(([key]) => key)).toEqual([
      "s v1 v1 end after 1 week",
      "s v1 v1 remind after 1 day",
      "s v1 v1 remind after 3 days",
    ]);
    expect(states).toHaveLength(9);
  });
});

describeOn("newest", "timers of several workers", (bench, database) => {
  it("that fire after the state was left are refused and do no harm", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    const { ledger } = bench().engine;
    await sub.move("s1", "fail");
    await bench().advance(day);
    const scope = `machine/${sub.name}`;
    // Claimed, and about to run, when somebody pays.
    const claimed = await ledger.verbs.claimDue([scope], { max: 1, leaseMs: 60_000, worker: "slow" });
    await sub.move("s1", "pay");
    const ran = await bench().engine.runHere(bench().lane(scope), claimed.tasks[0]!);
    expect(ran).toMatchObject({ outcome: "lost" });
    expect(told).toEqual([]);
    expect(await sub.state("s1")).toMatchObject({ state: "active", version: 2 });
  });

  it("refuse also when somebody replays them by hand after the state was entered again", async () => {
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind);
    const scope = `machine/${sub.name}`;
    await bench().engine.start();
    await sub.move("s1", "fail");
    await bench().pass(day);
    await sub.move("s1", "pay");
    await sub.move("s1", "fail");
    const { verbs } = bench().engine.ledger;
    const keys = ["s1 v1 remind after 1 day", "s1 v1 remind after 3 days"];
    await verbs.replay(
      keys.map((key) => ({ scope, key })),
      { again: true },
    );
    await bench().settle();
    expect(await bench().tasks(scope)).toMatchObject({ [keys[0]!]: "done", [keys[1]!]: "done" });
    expect(await verbs.look({ scope, key: keys[1]! })).toMatchObject({
      result: expect.stringContaining("refused") as string,
    });
    expect(told).toHaveLength(1);
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "remind", "pay", "fail"]);
  });

  it("that another worker took over cannot commit", async () => {
    const name = fresh("sub");
    const table = fresh("reminder");
    let reached: (() => void) | undefined;
    let goOn: (() => void) | undefined;
    const inside = new Promise<void>((resolve) => (reached = resolve));
    const held = new Promise<void>((resolve) => (goOn = resolve));
    let first = true;
    const sub = subscriptions(
      bench(),
      async ({ tx, subject }) => {
        await tx.query(`insert into ${table} values ($1)`, [subject]);
        if (!first) return;
        first = false;
        reached?.();
        await held;
      },
      name,
    );
    await bench().rows(`create table ${table} (subject text)`);
    await sub.move("s1", "fail");
    await bench().advance(day);
    const scope = `machine/${name}`;
    const { verbs } = bench().engine.ledger;
    const slow = await verbs.claimDue([scope], { max: 1, leaseMs: 60_000, worker: "slow" });
    const zombie = bench().engine.runHere(bench().lane(scope), slow.tasks[0]!);
    await inside;
    await bench().advance(120_000);
    const quick = await verbs.claimDue([scope], { max: 1, leaseMs: 60_000, worker: "quick" });
    expect(quick.tasks).toMatchObject([{ key: slow.tasks[0]!.key, attempt: 2 }]);
    const second = bench().engine.runHere(bench().lane(scope), quick.tasks[0]!);
    goOn?.();
    expect(await zombie).toMatchObject({ outcome: "lost" });
    expect(await second).toMatchObject({ outcome: "done" });
    expect(await bench().rows(`select subject from ${table}`)).toEqual([{ subject: "s1" }]);
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "remind"]);
  });

  /** The next version of the application: a process that has this definition of the machine. */
  const deployed = (name: string, { states = {}, moves = {} }: Partial<Definition>): Bench => {
    const next = new Bench(pgDatabase(database().url));
    defineMachine(next.engine, name, {
      initial: "active",
      states: { active: {}, ended: {}, ...states },
      moves: { fail: { from: ["active"], to: "ended" }, ...moves },
    });
    return next;
  };
  type Definition = MachineDefinition<string, Record<string, undefined>, Queries>;
  const remind = { from: ["past_due"], to: "past_due" };
  const removals: [string, Partial<Definition>][] = [
    ["move", { states: { past_due: {} } }],
    ["place in their state", { states: { past_due: {} }, moves: { remind } }],
    [
      "state",
      {
        states: { late: { after: { "1 day": "remind" } } },
        moves: { remind: { from: ["late"], to: "late" } },
      },
    ],
  ];

  it.each(removals)(
    "whose %s a deployment has removed move nothing, and end in sight",
    async (_, definition) => {
      const sub = subscriptions(bench());
      const scope = `machine/${sub.name}`;
      const key = "s1 v1 remind after 1 day";
      await sub.move("s1", "fail");
      const next = deployed(sub.name, definition);
      await next.engine.start();
      await bench().advance(day);
      await bench().settle(next);
      const { verbs } = bench().engine.ledger;
      // A newer version may run beside this one, and know it.
      const reason = `the state past_due of ${sub.name} has no timer remind: was it removed?`;
      expect(await verbs.look({ scope, key })).toMatchObject({ state: "waiting", tries: 1, reason });
      const hours = 60 * 60 * 1000;
      for (let i = 0; i < 30; i++) {
        await bench().advance(4 * hours);
        await bench().settle(next);
      }
      expect(await verbs.look({ scope, key })).toMatchObject({ state: "done", tries: 30 });
      expect(JSON.parse(String((await verbs.look({ scope, key }))?.["result"]))).toMatchObject({
        outcome: "gone",
        state: "past_due",
        skipped: expect.stringContaining("has no timer remind") as string,
      });
      expect(await sub.state("s1")).toMatchObject({ state: "past_due", version: 1 });
      await next.stop();
    },
  );

  it("that one version does not know are fired by another that does", async () => {
    const { told, remind: tell } = telling();
    const sub = subscriptions(bench(), tell);
    await sub.move("s1", "fail");
    const next = deployed(sub.name, { states: { past_due: {} }, moves: { remind } });
    await next.engine.start();
    await bench().advance(day);
    await bench().settle(next);
    expect(told).toEqual([]);
    await next.stop();
    await bench().engine.start();
    await bench().pass(60_000);
    expect(told).toEqual([{ subject: "s1", after: "1 day" }]);
  });

  it("whose time a deployment has changed keep the time that they were set with", async () => {
    const sub = subscriptions(bench());
    await sub.move("s1", "fail");
    const next = deployed(sub.name, {
      states: { past_due: { after: { "2 days": "remind" } } },
      moves: { remind },
    });
    await next.engine.start();
    await bench().advance(day);
    await bench().settle(next);
    expect(movesOf(await sub.history("s1"))).toEqual(["fail", "remind"]);
    await next.stop();
  });

  it("fire once where two processes look for them at once", async () => {
    const name = fresh("sub");
    const other = new Bench(pgDatabase(database().url));
    const { told, remind } = telling();
    const sub = subscriptions(bench(), remind, name);
    subscriptions(other, remind, name);
    const subjects = Array.from({ length: 20 }, (_, i) => `s${i}`);
    await Promise.all(subjects.map((subject) => sub.move(subject, "fail")));
    await bench().engine.start();
    await other.engine.start();
    await bench().advance(day);
    await bench().settle(other);
    expect(told.map(({ subject }) => subject).toSorted()).toEqual(subjects.toSorted());
    await other.stop();
  });
});
