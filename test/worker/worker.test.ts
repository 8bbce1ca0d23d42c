import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, describe, expect, it } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import { describeWith } from "../support/postgres.ts";
import { allEnded, countOf, engineOn, gate, lane, noPoll, type TestEngine } from "./support.ts";

describeWith("newest", "the worker", (database) => {
  const open: TestEngine[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  type Rest = Parameters<typeof engineOn> extends [unknown, ...infer Others] ? Others : never;
  /** An engine that records; it runs nothing. */
  const idle = (...rest: Rest): TestEngine => {
    const made = engineOn(database().url, ...rest);
    open.push(made);
    return made;
  };
  const start = async (...rest: Rest): Promise<TestEngine> => {
    const made = idle(...rest);
    await made.engine.start();
    return made;
  };

  describe("taking work", () => {
    it("runs what it has just recorded with two statements and no look for work", async () => {
      const { engine, history, watch } = await start([lane("a1")], { pollMs: noPoll });
      await watch.sentTimes("claim_due_rows", 1);
      const before = watch.sent.length;
      expect(await engine.offer({ scope: "a1", key: "1", body: "1" })).toMatchObject({ outcome: "claimed" });
      await history.ended(1);
      expect(watch.sent.slice(before)).toEqual(["record_call", "complete_many"]);
      expect(history.outcomes()).toEqual(["done"]);
    });

    it("shares statements between callers who come together", async () => {
      const { engine, history, watch } = await start([lane("a2")], { pollMs: noPoll, concurrency: 64 });
      await watch.sentTimes("claim_due_rows", 1);
      const before = watch.sent.length;
      await Promise.all(
        Array.from({ length: 50 }, (_, i) => engine.offer({ scope: "a2", key: `${i}`, body: "1" })),
      );
      await history.ended(50);
      // Halves: one is run while the other is recorded.
      expect(watch.sent.slice(before).filter((verb) => verb === "record_call")).toHaveLength(2);
      expect(watch.sent.length - before).toBeLessThan(10);
    });

    it("claims a backlog in batches", async () => {
      const writer = idle([]);
      await writer.engine.ready();
      const tasks = Array.from({ length: 500 }, (_, i) => ({ scope: "a3", key: `${i}`, body: "1" }));
      await writer.engine.ledger.verbs.record(tasks);
      const { history, watch } = await start([lane("a3")]);
      await history.ended(500);
      expect(new Set(history.ran.map(({ task }) => task.key)).size).toBe(500);
      expect(watch.count("claim_due_rows")).toBeLessThan(40);
      expect(watch.count("complete_many")).toBeLessThan(100);
    });

    it("never runs more at once than it may, in all and of a lane", async () => {
      let running = 0;
      let most = 0;
      let runningB = 0;
      let mostB = 0;
      const work = async (): Promise<void> => {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
      };
      const workB = async (): Promise<void> => {
        mostB = Math.max(mostB, ++runningB);
        await work();
        runningB--;
      };
      const lanes = [lane("a4", work), lane("b4", workB, { concurrency: 2 })];
      const { engine, history } = await start(lanes, { concurrency: 8 });
      const offers = Array.from({ length: 100 }, (_, i) =>
        engine.offer({ scope: i % 2 ? "a4" : "b4", key: `${i}`, body: "1" }),
      );
      await Promise.all(offers);
      await history.ended(100);
      expect(most).toBeGreaterThan(2);
      expect(most).toBeLessThanOrEqual(8);
      expect(mostB).toBe(2);
    });

    it("is woken by another process's word", async () => {
      const { history } = await start([lane("a5")], { pollMs: noPoll });
      const writer = idle([]);
      expect(await writer.engine.offer({ scope: "a5", key: "1", body: "1" })).toEqual({
        outcome: "recorded",
      });
      await history.ended(1);
      expect(writer.watch.count("wake")).toBe(1);
    });

    it("finds work by polling where it cannot listen", async () => {
      const { history } = await start([lane("a6")], { pollMs: 20, listen: false });
      const writer = idle([]);
      await writer.engine.offer({ scope: "a6", key: "1", body: "1" });
      await history.ended(1);
    });

    it("starts and polls where listening fails", async () => {
      const made = idle([lane("a7")], { pollMs: 20 });
      made.watch.database.listen = () =>
        Promise.reject(new OncewardError("database_unavailable", "no direct way"));
      await made.engine.start();
      await idle([]).engine.offer({ scope: "a7", key: "1", body: "1" });
      await made.history.ended(1);
      expect(made.errors).toHaveLength(1);
    });

    it("starts a delayed task when it is due, without waiting for a poll", async () => {
      const { engine, history } = await start([lane("a8")], { pollMs: 30_000 });
      await engine.offer({ scope: "a8", key: "1", body: "1", delayMs: 50 });
      await history.ended(1);
    });

    it("does not lose a word that comes while it looks for work", async () => {
      const { engine, history, watch } = await start([lane("a9")], { pollMs: noPoll });
      await watch.sentTimes("claim_due_rows", 1);
      const looking = watch.holdAfter("claim_due_rows");
      engine.worker.wake();
      await looking.reached;
      const writer = idle([]);
      await writer.engine.ready();
      await writer.engine.ledger.verbs.record([{ scope: "a9", key: "1", body: "1" }]);
      engine.worker.wake();
      looking.release();
      await history.ended(1);
    });

    it("tells others of what it has no room for itself", async () => {
      const held = gate();
      const busy = await start([lane("a10", () => held.promise)], { concurrency: 1, pollMs: noPoll });
      await busy.engine.offer({ scope: "a10", key: "1", body: "1" });
      const free = await start([lane("a10")], { pollMs: noPoll });
      await busy.engine.offer({ scope: "a10", key: "2", body: "1" });
      await free.history.ended(1);
      expect(free.history.ran[0]?.task.key).toBe("2");
      held.open();
      await busy.history.ended(1);
    });

    it("takes nothing ahead of what runs for long, so that others can have it", async () => {
      const held = gate();
      const busy = await start([lane("a11", () => held.promise)], { concurrency: 2, pollMs: 20 });
      const tasks = Array.from({ length: 10 }, (_, i) => ({ scope: "a11", key: `${i}`, body: "1" }));
      await busy.engine.ledger.verbs.record(tasks);
      busy.engine.worker.wake();
      const free = await start([lane("a11")], { pollMs: 20 });
      await free.history.ended(8);
      held.open();
      await busy.history.ended(2);
    });

    it("gives back what it took ahead when quick tasks turn slow", async () => {
      const held = gate();
      const work = (task: { body: unknown }): unknown => (task.body === "slow" ? held.promise : undefined);
      const busy = await start([lane("a12", work)], { concurrency: 2, pollMs: 20 });
      // The first ones are quick, so more are taken ahead; then all places are held by slow ones.
      for (let i = 0; i < 20; i++) await busy.engine.offer({ scope: "a12", key: `quick ${i}`, body: "1" });
      await busy.history.ended(20);
      const offers = Array.from({ length: 10 }, (_, i) =>
        busy.engine.offer({ scope: "a12", key: `${i}`, body: "slow" }),
      );
      const outcomes = (await Promise.all(offers)).map(({ outcome }) => outcome);
      expect(outcomes.filter((outcome) => outcome === "claimed").length).toBeGreaterThan(2);
      const free = await start([lane("a12")], { pollMs: 20 });
      await free.history.ended(8);
      held.open();
      await busy.history.ended(22);
    });

    it("runs tasks outside of the async context of who enqueued them", async () => {
      const context = new AsyncLocalStorage<string>();
      const seen: unknown[] = [];
      const { engine, history } = await start([lane("a13", () => seen.push(context.getStore()))], {
        pollMs: noPoll,
      });
      await context.run("a request", () => engine.offer({ scope: "a13", key: "1", body: "1" }));
      await history.ended(1);
      expect(seen).toEqual([undefined]);
    });
  });

  describe("fairness", () => {
    it("leaves places for the other lanes when slow ones could fill them all", async () => {
      const held = gate();
      const slow = ["s1", "s2", "s3"].map((name) => lane(name, () => held.promise));
      const quick = lane("q1");
      const { engine, history } = await start([...slow, quick], { concurrency: 8, pollMs: 20 });
      const tasks = slow.flatMap(({ name }) =>
        Array.from({ length: 30 }, (_, i) => ({ scope: name, key: `${i}`, body: "1" })),
      );
      await engine.ledger.verbs.record(tasks);
      engine.worker.wake();
      for (let i = 0; i < 30; i++) await idle([]).engine.offer({ scope: "q1", key: `${i}`, body: "1" });
      await history.ended(30);
      expect(new Set(history.ran.map(({ task }) => task.scope))).toEqual(new Set(["q1"]));
      held.open();
      await history.ended(120);
    });

    it("lets one long line behind a hot key hold up nobody else", async () => {
      const held = gate();
      const work = (task: { serial: string | null }): unknown =>
        task.serial === "hot" ? held.promise : undefined;
      const { engine, history } = await start([lane("h1", work)], { concurrency: 4, pollMs: 50 });
      const hot = Array.from({ length: 300 }, (_, i) => ({
        scope: "h1",
        key: `hot ${1_000 + i}`,
        body: "1",
        serial: "hot",
      }));
      const cold = Array.from({ length: 20 }, (_, i) => ({
        scope: "h1",
        key: `cold ${i}`,
        body: "1",
        serial: `c${i % 5}`,
      }));
      await engine.ledger.verbs.record(hot);
      await engine.ledger.verbs.record(cold);
      engine.worker.wake();
      await history.ended(20);
      expect(history.ran.every(({ task }) => task.serial !== "hot")).toBe(true);
      held.open();
      await history.ended(320);
      const order = history.ran.flatMap(({ task }) => (task.serial === "hot" ? [task.key] : []));
      expect(order).toEqual(hot.map(({ key }) => key));
    });

    it("keeps a limit of what runs at once across processes", async () => {
      let running = 0;
      let most = 0;
      const work = async (): Promise<void> => {
        most = Math.max(most, ++running);
        // Long enough for others to start, if they would.
        await new Promise((resolve) => setTimeout(resolve, 5));
        running--;
      };
      const limited = lane("l1", work, { limit: { running: 3 } });
      const engines = [
        await start([limited], { pollMs: 20 }),
        await start([limited], { pollMs: 20 }),
      ] as const;
      for (let i = 0; i < 30; i++) {
        await engines[i % 2]!.engine.offer({ scope: "l1", key: `${i}`, body: "1", slots: 3 });
      }
      await allEnded(engines, 30);
      expect(most).toBe(3);
    });
  });

  describe("stopping", () => {
    it("lets what runs finish, and hands back what has not started, at once", async () => {
      const held = gate();
      const work = (task: { body: unknown }): unknown => (task.body === "slow" ? held.promise : undefined);
      const one = await start([lane("t1", work)], { concurrency: 2, pollMs: noPoll });
      for (let i = 0; i < 20; i++) await one.engine.offer({ scope: "t1", key: `quick ${i}`, body: "1" });
      await one.history.ended(20);
      await Promise.all(
        Array.from({ length: 10 }, (_, i) => one.engine.offer({ scope: "t1", key: `${i}`, body: "slow" })),
      );
      const other = await start([lane("t1")], { pollMs: noPoll });
      const stopped = one.engine.stop();
      await other.history.ended(8);
      held.open();
      await stopped;
      expect(one.history.ran.slice(20).map(({ ran }) => ran.outcome)).toEqual(["done", "done"]);
      // Handing back is no failure: it uses up no try.
      expect(other.history.ran.map(({ task }) => task.tries)).toEqual(Array(8).fill(1));
    });

    it("hands back what does not finish in time, and tells it so first", async () => {
      const reasons: unknown[] = [];
      const never = lane("t2", (_task, run) => {
        run.signal.addEventListener("abort", () => reasons.push((run.signal.reason as OncewardError).code));
        return new Promise(() => {});
      });
      const one = await start([never], { pollMs: noPoll });
      await one.engine.offer({ scope: "t2", key: "1", body: "1" });
      const other = await start([lane("t2")], { pollMs: noPoll });
      await one.engine.stop({ graceMs: 1 });
      expect(reasons).toEqual(["claim_lost"]);
      expect(one.history.outcomes()).toEqual(["lost"]);
      await other.history.ended(1);
      expect(other.history.ran[0]?.task).toMatchObject({ attempt: 2, tries: 1 });
    });

    it("hands back a claim that comes back after it began to stop", async () => {
      const ran: string[] = [];
      const one = await start([lane("t3", (task) => ran.push(task.key))], { pollMs: noPoll });
      await one.watch.sentTimes("claim_due_rows", 1);
      await one.engine.ledger.verbs.record([{ scope: "t3", key: "1", body: "1" }]);
      const claiming = one.watch.holdAfter("claim_due_rows");
      one.engine.worker.wake();
      await claiming.reached;
      const stopped = one.engine.stop();
      claiming.release();
      await stopped;
      expect(ran).toEqual([]);
      expect(await countOf(one.watch.database, "scope = 't3' and state = 'waiting' and tries = 0")).toBe(1);
    });

    it("hands back an offer that comes back after it began to stop", async () => {
      const ran: string[] = [];
      const one = await start([lane("t4", (task) => ran.push(task.key))], { pollMs: noPoll });
      const recording = one.watch.holdAfter("record_call");
      const offer = one.engine.offer({ scope: "t4", key: "1", body: "1" });
      await recording.reached;
      const stopped = one.engine.stop();
      recording.release();
      await stopped;
      expect((await offer).outcome).toBe("claimed");
      expect(ran).toEqual([]);
      expect(await countOf(one.watch.database, "scope = 't4' and state = 'waiting' and tries = 0")).toBe(1);
    });

    it("still records what is offered after it has stopped", async () => {
      const one = await start([lane("t5")], { pollMs: noPoll });
      const other = await start([lane("t5")], { pollMs: noPoll });
      await one.engine.stop();
      expect(await one.engine.offer({ scope: "t5", key: "1", body: "1" })).toEqual({ outcome: "recorded" });
      await other.history.ended(1);
    });

    it("waits for the ledger to be told of what has just ended", async () => {
      const one = await start([lane("t6")], { pollMs: noPoll });
      const completing = one.watch.holdBefore("complete_many");
      await one.engine.offer({ scope: "t6", key: "1", body: "1" });
      await completing.reached;
      const stopped = one.engine.stop({ graceMs: 0 });
      setTimeout(() => completing.release(), 20);
      await stopped;
      expect(one.history.outcomes()).toEqual(["done"]);
    });

    it("ends also when the database does not answer any more", { timeout: 60_000 }, async () => {
      const one = await start([lane("t9")], { pollMs: noPoll });
      await one.watch.sentTimes("claim_due_rows", 1);
      const claiming = one.watch.holdAfter("claim_due_rows");
      one.engine.worker.wake();
      await claiming.reached;
      await one.engine.stop({ graceMs: 1 });
      claiming.release();
    });

    it("can be stopped before it has started, while it starts, and twice", async () => {
      const one = idle([lane("t7")]);
      await one.engine.stop();
      const hello = one.watch.holdBefore("hello");
      const starting = one.engine.start();
      await hello.reached;
      const stopped = Promise.all([one.engine.stop(), one.engine.stop()]);
      hello.release();
      await starting;
      await stopped;
      expect(one.watch.count("claim_due_rows")).toBe(0);
      const { rows } = await one.watch.database.query("select id from onceward.worker where id = $1", [
        one.engine.ledger.worker,
      ]);
      expect(rows).toEqual([]);
      await expect(one.engine.start()).rejects.toMatchObject({ code: "config_invalid" });
    });

    it("can be started again where the database was away at first", async () => {
      const one = idle([lane("t8")]);
      one.watch.fail("hello", new OncewardError("database_unavailable", "away"));
      await expect(one.engine.start()).rejects.toMatchObject({ code: "database_unavailable" });
      one.watch.fail("hello", undefined);
      await one.engine.start();
      await one.engine.offer({ scope: "t8", key: "1", body: "1" });
      await one.history.ended(1);
    });
  });

  describe("trouble", () => {
    it("goes on looking when the database did not answer", async () => {
      const one = await start([lane("e1")], { pollMs: noPoll });
      await one.watch.sentTimes("claim_due_rows", 1);
      one.watch.fail("claim_due_rows", new OncewardError("database_unavailable", "away"));
      one.engine.worker.wake();
      await one.watch.sentTimes("claim_due_rows", 2);
      await one.engine.ledger.verbs.record([{ scope: "e1", key: "1", body: "1" }]);
      one.watch.fail("claim_due_rows", undefined);
      await one.history.ended(1);
      expect(one.errors.length).toBeGreaterThan(0);
    });

    it("tells the ledger again of what ended while the database was away", async () => {
      const one = await start([lane("e2")], { pollMs: noPoll });
      one.watch.fail("complete_many", new OncewardError("database_unavailable", "away"));
      await one.engine.offer({ scope: "e2", key: "1", body: "1" });
      await one.watch.sentTimes("complete_many", 2);
      one.watch.fail("complete_many", undefined);
      await one.history.ended(1);
      expect(one.history.outcomes()).toEqual(["done"]);
    });

    it("is not stopped by callbacks that throw", async () => {
      const told = gate();
      let ran = 0;
      const one = idle([lane("e3")], {
        pollMs: noPoll,
        concurrency: 1,
        onRan: () => {
          if (++ran === 3) told.open();
          throw new Error("from onRan");
        },
        onError: () => {
          throw new Error("from onError");
        },
      });
      await one.engine.start();
      for (let i = 0; i < 3; i++) await one.engine.offer({ scope: "e3", key: `${i}`, body: "1" });
      await told.promise;
      await one.engine.stop();
      expect(await countOf(one.watch.database, "scope = 'e3' and state = 'done'")).toBe(3);
    });

    it("fails what throws, and lets the ledger say when it comes back", async () => {
      const work = (task: { attempt: number }): void => {
        if (task.attempt === 1) throw new Error("not yet");
      };
      const one = await start([lane("e4", work, { backoff: { baseMs: 1, capMs: 1 } })], { pollMs: 10 });
      await one.engine.offer({ scope: "e4", key: "1", body: "1" });
      await one.history.ended(2);
      expect(one.history.outcomes()).toEqual(["failed", "done"]);
    });
  });

  it("stops when all is done where it may take for ever, and polls no sooner than it is told", async () => {
    const goOn = gate();
    const begun = gate();
    const work = async (): Promise<void> => {
      begun.open();
      await goOn.promise;
    };
    const made = await start([lane("forever", work)], { pollMs: Infinity });
    await made.engine.offer({ scope: "forever", key: "1" });
    await begun.promise;
    const claims = made.watch.count("claim_due_rows");
    const stopped = made.engine.stop({ graceMs: Infinity });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(made.history.outcomes()).toEqual([]);
    goOn.open();
    await stopped;
    expect(made.history.outcomes()).toEqual(["done"]);
    expect(made.watch.count("claim_due_rows") - claims).toBeLessThan(3);
  });

  it("runs each task once with several workers on one backlog", async () => {
    const runs = new Map<string, number>();
    const work = (task: { key: string }): void => void runs.set(task.key, (runs.get(task.key) ?? 0) + 1);
    const writer = idle([]);
    await writer.engine.ready();
    const tasks = Array.from({ length: 1_000 }, (_, i) => ({ scope: "m1", key: `${i}`, body: "1" }));
    await writer.engine.ledger.verbs.record(tasks);
    const engines = await Promise.all([1, 2, 3].map(() => start([lane("m1", work)], { pollMs: 20 })));
    await allEnded(engines, 1_000);
    expect(runs.size).toBe(1_000);
    expect([...runs.values()].every((n) => n === 1)).toBe(true);
  });
});
