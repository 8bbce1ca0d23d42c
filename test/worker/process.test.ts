import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NewTask } from "../../src/ledger/task.ts";
import { needsPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { describeWith } from "../support/postgres.ts";
import { type ChildOptions, WorkerProcess } from "./process.ts";
import { countOf, engineOn, lane, type TestEngine } from "./support.ts";

const tasksOf = (scope: string, count: number): NewTask[] =>
  Array.from({ length: count }, (_, i) => ({ scope, key: `${i}`, body: "1" }));

describeWith("newest", "worker processes", (database) => {
  const engines: TestEngine[] = [];
  const processes: WorkerProcess[] = [];
  afterEach(async () => {
    for (const one of processes.splice(0)) await one.kill();
    for (const one of engines.splice(0)) await one.close();
  });
  const engine = (
    ...rest: Parameters<typeof engineOn> extends [unknown, ...infer Others] ? Others : never
  ) => {
    const made = engineOn(database().url, ...rest);
    engines.push(made);
    return made;
  };
  const spawn = async (options: Omit<ChildOptions, "url"> & { url?: string }): Promise<WorkerProcess> => {
    const made = await WorkerProcess.start({ url: database().url, ...options });
    processes.push(made);
    return made;
  };
  /** Records tasks for whoever runs the lane. */
  const record = async (tasks: readonly NewTask[]): Promise<TestEngine> => {
    const writer = engine([]);
    await writer.engine.ready();
    await writer.engine.ledger.verbs.record(tasks);
    writer.engine.worker.announce(tasks[0]!.scope);
    return writer;
  };

  it("that are killed leave their work to the others, once its leases have ended", async () => {
    await record(tasksOf("k1", 10));
    const victim = await spawn({ lane: "k1", hold: true, engine: { leaseMs: 2_000, concurrency: 10 } });
    await victim.said("start", 10);
    const other = engine([lane("k1")], { pollMs: 50 });
    await other.engine.start();
    await victim.kill();
    await other.history.ended(10);
    expect(other.history.ran.map(({ task }) => task.attempt)).toEqual(Array(10).fill(2));
    expect(await countOf(other.watch.database, "scope = 'k1' and state = 'done'")).toBe(10);
  });

  it("that were stopped past their leases are fenced, every one of their tasks", async () => {
    const count = 50;
    await record(tasksOf("z1", count));
    const zombie = await spawn({ lane: "z1", hold: true, engine: { leaseMs: 1_500, concurrency: count } });
    await zombie.said("start", count);
    zombie.signal("SIGSTOP");
    const other = engine([lane("z1")], { pollMs: 50 });
    await other.engine.start();
    await other.history.ended(count);
    zombie.go();
    zombie.signal("SIGCONT");
    await zombie.said("ran", count);
    const outcomes = zombie.of("ran").map((word) => (word.word === "ran" ? word.outcome : ""));
    expect(outcomes).toEqual(Array(count).fill("lost"));
    expect(other.history.outcomes()).toEqual(Array(count).fill("done"));
    expect(await countOf(other.watch.database, "scope = 'z1' and state = 'done' and attempt = 2")).toBe(
      count,
    );
  });

  it("that were stopped past their leases do nothing outside any more, if they ask first", async () => {
    const count = 20;
    await record(tasksOf("z2", count));
    const zombie = await spawn({
      lane: "z2",
      hold: true,
      confirm: true,
      engine: { leaseMs: 1_500, concurrency: count },
    });
    await zombie.said("start", count);
    zombie.signal("SIGSTOP");
    const other = engine([lane("z2")], { pollMs: 50 });
    await other.engine.start();
    await other.history.ended(count);
    // It goes on with its tasks at once: before any timer of its own can tell it that its leases are over.
    zombie.go();
    zombie.signal("SIGCONT");
    await zombie.said("ran", count);
    expect(zombie.of("effect")).toEqual([]);
  });

  it("that are told to end finish what runs, hand back the rest at once, and end as they were told", async () => {
    await record(tasksOf("d1", 40));
    const leaving = await spawn({ lane: "d1", hold: true, engine: { leaseMs: 600_000, concurrency: 4 } });
    await leaving.said("start", 4);
    const other = engine([lane("d1")], { pollMs: 600_000 });
    await other.engine.start();
    leaving.signal("SIGTERM");
    leaving.go();
    expect(await leaving.ended()).toBe("SIGTERM");
    await other.history.ended(36);
    expect(await countOf(other.watch.database, "scope = 'd1' and state = 'done' and tries = 1")).toBe(40);
    const { rows } = await other.watch.database.query(
      "select id from onceward.worker where 'd1' = any (lanes)",
    );
    expect(rows).toEqual([{ id: other.engine.ledger.worker }]);
  });

  it("that are told to end hand back what does not finish, without waiting for its lease", async () => {
    await record(tasksOf("d2", 4));
    const leaving = await spawn({ lane: "d2", hold: true, engine: { leaseMs: 600_000, graceMs: 50 } });
    await leaving.said("start", 4);
    const other = engine([lane("d2")], { pollMs: 600_000 });
    await other.engine.start();
    leaving.signal("SIGTERM");
    await other.history.ended(4);
    expect(other.history.ran.map(({ task }) => task.attempt)).toEqual(Array(4).fill(2));
    expect(await leaving.ended()).toBe("SIGTERM");
  });

  describe("two on one database, one of them killed: the other finishes everything", () => {
    const count = 2_000;
    const finish = async (url: string, name: string): Promise<void> => {
      const worker = { url, lane: name, workMs: 5, engine: { leaseMs: 2_000, pollMs: 50, concurrency: 8 } };
      const [victim, other] = await Promise.all([spawn(worker), spawn(worker)]);
      const writer = await record(tasksOf(name, count));
      await victim.said("start", 50);
      await victim.kill();
      const killedAt = victim.of("ran").length;
      for (;;) {
        const ran = other.of("ran").length;
        if ((await countOf(writer.watch.database, `scope = '${name}' and state = 'done'`)) === count) break;
        await other.said("ran", ran + 1);
      }
      const effects = new Map<string, number>();
      for (const one of [...victim.of("effect"), ...other.of("effect")]) {
        if (one.word === "effect") effects.set(one.key, (effects.get(one.key) ?? 0) + 1);
      }
      const repeated = [...effects.values()].filter((times) => times > 1).length;
      console.log(
        `${name}: ${count} tasks; the killed worker had told of ${killedAt}, the other ran ${other.of("ran").length}; ` +
          `lost 0, run again ${repeated}`,
      );
      expect(await countOf(writer.watch.database, `scope = '${name}' and state <> 'done'`)).toBe(0);
    };

    it("directly", () => finish(database().url, "two-direct"));

    describe("behind PgBouncer in transaction mode", () => {
      beforeEach(needsPgBouncer);
      it("as well", async () => {
        const bouncer = await startPgBouncer({ upstream: database().url });
        try {
          await finish(bouncer.url, "two-bouncer");
        } finally {
          for (const one of processes.splice(0)) await one.kill();
          await bouncer.stop();
        }
      });
    });
  });
});
