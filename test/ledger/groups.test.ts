/** Serial groups (one after another, in order) and slots (at most n at once). */
import { describe, expect, it } from "vitest";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import {
  type Bench,
  claimDue,
  claimOne,
  describeOnEach,
  freshLane,
  keysOf,
  minute,
  recordAll,
  stateOf,
} from "./support.ts";

const lease = { leaseMs: minute, worker: "w1" };

function group(
  scope: string,
  keys: readonly string[],
  options: object = {},
): { scope: string; key: string }[] {
  return keys.map((key) => ({ scope, key, serial: "g", ...options }));
}

/** Lets the first of the group run and the others step aside behind it. */
async function line(bench: Bench, keys = ["1", "2", "3"], options: object = {}): Promise<string> {
  const scope = freshLane();
  await recordAll(bench.ledger, group(scope, keys, options));
  expect(keysOf(await claimDue(bench.ledger, scope))).toEqual(keys.slice(0, 1));
  return scope;
}

describeOnEach("serial groups", (bench) => {
  it("run one at a time, in the order they were recorded", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    // Neither the key nor a higher priority comes before the order.
    await recordAll(ledger, [
      { scope, key: "z", serial: "g" },
      { scope, key: "y", serial: "g", priority: 5 },
      { scope, key: "x", serial: "g" },
      { scope, key: "other", serial: "h" },
      { scope, key: "alone" },
    ]);
    expect(keysOf(await claimDue(ledger, scope)).toSorted()).toEqual(["alone", "other", "z"]);
    const order = ["z"];
    for (const next of ["y", "x"]) {
      expect(await claimDue(ledger, scope)).toEqual([]);
      await clock.advance(minute / 3); // well within the lease
      expect(await ledger.complete({ scope, key: order.at(-1)!, attempt: 1 })).toBe("done");
      order.push(...keysOf(await claimDue(ledger, scope)));
      expect(order.at(-1)).toBe(next);
    }
  });

  it("keep the order also where the clock stands still, or is set back", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["d"]));
    await clock.advance(-minute);
    await recordAll(ledger, group(scope, ["c"]));
    await ledger.verbs.record(group(scope, ["e", "b"]));
    await recordAll(ledger, group(scope, ["a"]));
    await clock.advance(minute);
    for (const key of ["d", "c", "e", "b", "a"]) {
      expect(keysOf(await claimDue(ledger, scope))).toEqual([key]);
      await ledger.complete({ scope, key, attempt: 1 });
    }
  });

  it("go on when the first of several groups end together", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2"]));
    await recordAll(ledger, group(scope, ["a", "b"], { serial: "h" }));
    const first = await claimDue(ledger, scope);
    expect(keysOf(first).toSorted()).toEqual(["1", "a"]);
    expect(await claimDue(ledger, scope)).toEqual([]);
    expect(await ledger.verbs.complete(first)).toEqual(["done", "done"]);
    expect(keysOf(await claimDue(ledger, scope)).toSorted()).toEqual(["2", "b"]);
  });

  it("keep the order of a batch", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    const keys = ["3", "1", "2"];
    await ledger.verbs.record(group(scope, keys));
    for (const key of keys) {
      expect(keysOf(await claimDue(ledger, scope))).toEqual([key]);
      await ledger.complete({ scope, key, attempt: 1 });
    }
  });

  it("are held to it too where a task is claimed by name, or as it is recorded", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    const [first, second] = group(scope, ["1", "2"]);
    expect(await ledger.recordAndClaim(first!)).toMatchObject({ outcome: "claimed", attempt: 1 });
    expect(await ledger.recordAndClaim(second!)).toMatchObject({ outcome: "recorded" });
    expect(await ledger.verbs.claim(second!, { ...lease, early: true })).toMatchObject({
      outcome: "waiting",
    });
    await ledger.complete({ ...first!, attempt: 1 });
    expect(await ledger.verbs.claim(second!, lease)).toMatchObject({ outcome: "claimed" });
  });

  it.each(["complete", "dead", "unknown", "cancel", "cancel the waiting"] as const)(
    "go on at once after %s",
    async (end) => {
      const { ledger } = bench();
      const scope = await line(bench());
      const claim = { scope, key: "1", attempt: 1 };
      if (end === "complete") await ledger.complete(claim);
      if (end === "dead") await ledger.fail({ ...claim, reason: "x", retry: "never" });
      if (end === "unknown") await ledger.fail({ ...claim, reason: "x", retry: "unknown" });
      if (end === "cancel") await ledger.verbs.cancel(claim);
      if (end === "cancel the waiting") {
        await ledger.verbs.cancel({ scope, key: "2" });
        expect(await claimDue(ledger, scope)).toEqual([]);
        await ledger.complete(claim);
      }
      expect(keysOf(await claimDue(ledger, scope))).toEqual([end === "cancel the waiting" ? "3" : "2"]);
    },
  );

  it.each(["claimed by name", "claimed when due"])(
    "go on at once when the first one dies of its tries as it is %s",
    async (how) => {
      const { ledger, clock } = bench();
      const scope = freshLane();
      await recordAll(ledger, group(scope, ["1"], { maxTries: 1 }));
      expect(keysOf(await claimDue(ledger, scope))).toEqual(["1"]);
      await clock.advance(minute - 20_000);
      await recordAll(ledger, group(scope, ["2"]));
      expect(await claimDue(ledger, scope)).toEqual([]); // "2" steps aside, for a minute at most
      await clock.advance(25_000);
      // Where the clock has not ticked since (PGlite's counts milliseconds), the same call finds "2" due already.
      const along = how === "claimed when due" ? await claimDue(ledger, scope, 1) : [];
      if (how === "claimed by name") await ledger.verbs.claim({ scope, key: "1" }, lease);
      expect(await stateOf(bench(), scope, "1")).toBe("dead");
      expect(keysOf([...along, ...(await claimDue(ledger, scope))])).toEqual(["2"]);
    },
  );

  it("wait for the first while it backs off, and let it go first again", async () => {
    const { ledger, clock } = bench();
    const scope = await line(bench());
    await ledger.fail({ scope, key: "1", attempt: 1, reason: "busy", retry: { afterMs: 5 * minute } });
    await clock.advance(2 * minute);
    expect(await claimDue(ledger, scope)).toEqual([]);
    await clock.advance(3 * minute);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["1"]);
  });

  it("wait for a first one whose lease has run out, which is taken over before the others", async () => {
    const { ledger, clock } = bench();
    const scope = await line(bench());
    await clock.advance(3 * minute);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["1"]);
  });

  it("recover by themselves when the first row was deleted by hand", async () => {
    const { ledger, database, clock } = bench();
    const scope = await line(bench());
    await database.query("delete from onceward.task where scope = $1::text and key = '1'", [scope]);
    await clock.advance(minute + 1);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["2"]);
  });

  it("never overlap when an older one is replayed while a younger one runs", async () => {
    const { ledger } = bench();
    const scope = await line(bench());
    await ledger.fail({ scope, key: "1", attempt: 1, reason: "x", retry: "never" });
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["2"]);
    await ledger.verbs.replay([{ scope, key: "1" }]);
    expect(await claimDue(ledger, scope)).toEqual([]);
    await ledger.complete({ scope, key: "2", attempt: 1 });
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["1"]); // The older one first, then "3".
    expect(await claimDue(ledger, scope)).toEqual([]);
  });

  it("keep their line short for the others: a thousand behind one key do not hide what comes after", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    const crowd = Array.from({ length: 1000 }, (_, i) => ({
      scope,
      key: `${i}`.padStart(4, "0"),
      serial: "g",
    }));
    await ledger.verbs.record(crowd);
    await ledger.record({ scope, key: "after them" });
    let calls = 0;
    let keys: string[] = [];
    while (!keys.includes("after them")) {
      expect(++calls).toBeLessThan(30);
      const due = await ledger.verbs.claimDue([scope], { max: 10, ...lease });
      keys = [...keys, ...keysOf(due.tasks)];
      // Who has reached his limit before the end says so, or a worker would sleep.
      if (!keys.includes("after them")) expect(due.nextInMs).toBe(0);
    }
    expect(keys).toEqual(["0000", "after them"]);
  });
});

describeOnEach("a long line", (bench) => {
  const keys = ["1", "2", "3", "4", "5", "6", "7", "8"];
  const two = { slots: 2 };

  /** Lets as many run as may, and all others step aside. */
  async function stand(options: object = {}): Promise<{ scope: string; running: readonly ClaimedTask[] }> {
    const scope = freshLane();
    await bench().ledger.verbs.record(group(scope, keys, options));
    const running = await claimDue(bench().ledger, scope, 20);
    return { scope, running };
  }

  /** What runs to the end without a moment passing, one after another. */
  async function finish(scope: string): Promise<string[]> {
    const order: string[] = [];
    for (;;) {
      const tasks = await claimDue(bench().ledger, scope);
      if (tasks.length === 0) return order;
      order.push(...keysOf(tasks));
      await bench().ledger.verbs.complete(tasks);
    }
  }

  async function forget(scope: string, ...gone: readonly string[]): Promise<void> {
    for (const key of gone)
      await bench().database.query("delete from onceward.task where scope = $1::text and key = $2::text", [
        scope,
        key,
      ]);
  }

  it.each([{}, two])("does not come back every minute, nor as one: %o", async (options) => {
    const { scope } = await stand(options);
    const due = async (): Promise<number> => {
      const { rows } = await bench().database.query(
        `select to_jsonb(count(*)) as n from onceward.task
         where scope = $1::text and behind is not null and due_at <= onceward.now()`,
        [scope],
      );
      return Number(rows[0]?.["n"]);
    };
    const { ledger, clock } = bench();
    await clock.advance(minute + 1);
    expect(await due()).toBe(1);
    await clock.advance(28 * minute);
    expect(await due()).toBe(1);
    await clock.advance(62 * minute);
    expect(await due()).toBe(options === two ? 6 : 7); // nobody is forgotten
    expect(keysOf(await claimDue(ledger, scope))).toContain("1");
  });

  describe.each([
    { kind: "one after another", options: {} },
    { kind: "with slots", options: two },
  ])("$kind", ({ options }) => {
    const ends: Record<string, (task: ClaimedTask) => Promise<unknown>> = {
      complete: (task) => bench().ledger.complete(task),
      dead: (task) => bench().ledger.fail({ ...task, reason: "x", retry: "never" }),
      unknown: (task) => bench().ledger.fail({ ...task, reason: "x", retry: "unknown" }),
      cancel: (task) => bench().ledger.verbs.cancel(task),
      "dead and pruned": async (task) => {
        await bench().ledger.fail({ ...task, reason: "x", retry: "never" });
        await bench().database.query(
          "update onceward.task set finished_at = finished_at - interval '3 hours' where scope = $1::text and key = $2::text",
          [task.scope, task.key],
        );
        const all = [null, null, "false", null, "1000"]; // every state, nobody excepted, from the beginning
        const pruned = await bench().ledger.verbs.call("prune", [
          "keys",
          "2 hours",
          task.scope,
          ...all,
          "true",
        ]);
        expect(pruned).toMatchObject({ pruned: 1 });
      },
    };

    it.each(Object.keys(ends))("goes on to its end at once after %s", async (end) => {
      const { scope, running } = await stand(options);
      for (const task of running) await ends[end]!(task);
      expect((await finish(scope)).toSorted()).toEqual(keys.slice(running.length));
    });

    it("goes on at once when the next ones are cancelled", async () => {
      const { ledger } = bench();
      const { scope, running } = await stand(options);
      for (const key of ["3", "4", "5"]) await ledger.verbs.cancel({ scope, key });
      await ledger.verbs.complete(running);
      expect(await finish(scope)).toEqual(options === two ? ["6", "7", "8"] : ["2", "6", "7", "8"]);
    });

    it("goes on to its end at once when the first one is replayed while others run", async () => {
      const { ledger } = bench();
      const { scope, running } = await stand(options);
      for (const task of running) await ledger.fail({ ...task, reason: "x", retry: "never" });
      const then = await claimDue(ledger, scope);
      await ledger.verbs.replay(running);
      expect(await claimDue(ledger, scope)).toEqual([]);
      await ledger.verbs.complete(then);
      expect((await finish(scope)).toSorted()).toEqual(keys.filter((key) => !keysOf(then).includes(key)));
    });

    it("goes on after the first one lets go, backs off and runs again", async () => {
      const { ledger, clock } = bench();
      const { scope, running } = await stand(options);
      for (const task of running) await ledger.fail({ ...task, reason: "x", retry: { afterMs: 5 * minute } });
      // With slots they make way for the others, of which as many run.
      const others = await finish(scope);
      await clock.advance(5 * minute);
      expect([...others, ...(await finish(scope))].toSorted()).toEqual(keys);
    });

    it("goes on when the lease of the first one runs out", async () => {
      const { clock } = bench();
      const { scope } = await stand(options);
      await clock.advance(minute + 1);
      expect((await finish(scope)).toSorted()).toEqual(keys);
    });

    it("goes on after a minute when who runs was deleted by hand, also after the next one was cancelled", async () => {
      const { ledger, clock } = bench();
      const { scope, running } = await stand(options);
      const next = keys[running.length]!;
      await ledger.verbs.cancel({ scope, key: next });
      await forget(scope, ...keysOf(running));
      await clock.advance(minute + 1);
      expect((await finish(scope)).toSorted()).toEqual(keys.slice(running.length + 1));
    });

    it("goes on with whatever comes when also the next one was deleted by hand", async () => {
      const { ledger } = bench();
      const { scope, running } = await stand(options);
      await forget(scope, ...keysOf(running), keys[running.length]!);
      await recordAll(ledger, group(scope, ["9"], options));
      const newest = await claimDue(ledger, scope); // of a strict group it wakes the first, and steps aside
      await ledger.verbs.complete(newest);
      const ran = [...keysOf(newest), ...(await finish(scope))];
      expect(ran.toSorted()).toEqual([...keys.slice(running.length + 1), "9"]);
    });
  });
});

describeOnEach("slots", (bench) => {
  const claimKeys = async (scope: string): Promise<string[]> => keysOf(await claimDue(bench().ledger, scope));

  it("let n of a group run at once, and one more for each that ends", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    const keys = ["1", "2", "3", "4", "5", "6", "7"];
    await recordAll(ledger, group(scope, keys, { slots: 3 }));
    const running = await claimDue(ledger, scope);
    expect(running).toHaveLength(3);
    expect(await claimKeys(scope)).toEqual([]);
    await ledger.complete(running[0]!);
    expect(await claimKeys(scope)).toHaveLength(1);
    expect(await claimKeys(scope)).toEqual([]);
  });

  it("are filled again at once when several end together", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2", "3", "4", "5", "6", "7"], { slots: 3 }));
    const running = await claimDue(ledger, scope);
    await ledger.verbs.complete(running);
    expect(await claimKeys(scope)).toHaveLength(3);
  });

  it.each(["fail", "defer"] as const)("are free while one waits after %s", async (end) => {
    const { ledger } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2", "3"], { slots: 2 }));
    const [one] = await claimDue(ledger, scope);
    if (end === "fail") await ledger.fail({ ...one!, reason: "busy", retry: { afterMs: 10 * minute } });
    else await ledger.verbs.defer(one!, { delayMs: 10 * minute });
    expect(await claimKeys(scope)).toEqual(["3"]);
  });

  it("that were given away stay so: a zombie does not come back as one too many", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2"], { slots: 1 }));
    const zombie = await claimOne(ledger, scope, "1");
    await clock.advance(minute + 1);
    const heir = await claimOne(ledger, scope, "2");
    expect(await ledger.renew(zombie)).toBe("lost");
    expect(await ledger.complete(zombie)).toBe("lost");
    const { log } = (await ledger.verbs.look(zombie)) as { log: { what: string }[] };
    expect(log.map((one) => one.what)).toEqual(["lapsed"]);
    await ledger.complete(heir);
    expect(keysOf(await claimDue(ledger, scope))).toEqual(["1"]);
  });

  it("of a lane that were given away stay so too", async () => {
    const { ledger, clock } = bench();
    const lane = freshLane();
    const options = { max: 5, ...lease, limits: { [lane]: { running: 2 } } };
    await recordAll(
      ledger,
      ["1", "2", "3"].map((key) => ({ scope: `${lane}/${key}`, key, slots: 99 })),
    );
    const zombies = (await ledger.verbs.claimDue([lane], options)).tasks;
    expect(zombies).toHaveLength(2);
    await clock.advance(minute + 1);
    const { tasks: heirs } = await ledger.verbs.claimDue([lane], { ...options, after: `${lane}/2` });
    expect(keysOf(heirs)).toEqual(["3"]);
    expect(await ledger.verbs.renew(zombies, minute)).toEqual(["lost", "lost"]);
    expect((await ledger.verbs.claimDue([lane], options)).tasks).toHaveLength(1);
  });

  it("that nobody needs are left to who was only late", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2"], { slots: 2 }));
    const late = await claimOne(ledger, scope, "1");
    await clock.advance(minute + 1);
    await claimOne(ledger, scope, "2");
    expect(await ledger.renew(late)).toBe("renewed");
  });

  it("are free when a lease has run out, and the crashed one needs a slot like the others", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await recordAll(ledger, group(scope, ["1", "2"], { slots: 1 }));
    expect(await claimKeys(scope)).toHaveLength(1);
    await clock.advance(minute + 1);
    expect(await claimKeys(scope)).toHaveLength(1);
    expect(await ledger.verbs.claim({ scope, key: "1" }, lease)).not.toMatchObject({ outcome: "claimed" });
    expect(await ledger.verbs.claim({ scope, key: "2" }, lease)).not.toMatchObject({ outcome: "claimed" });
  });
});
