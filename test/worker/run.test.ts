import { afterEach, expect, it } from "vitest";
import { Fatal, OncewardError } from "../../src/errors.ts";
import { describeWith } from "../support/postgres.ts";
import { engineOn, gate, lane, noPoll, type TestEngine } from "./support.ts";

describeWith("newest", "one attempt", (database) => {
  const open: TestEngine[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  type Rest = Parameters<typeof engineOn> extends [unknown, ...infer Others] ? Others : never;
  const start = async (...rest: Rest): Promise<TestEngine> => {
    const made = engineOn(database().url, ...rest);
    open.push(made);
    await made.engine.start();
    return made;
  };
  /** Runs one task of a lane, once. */
  const runOnce = async (
    name: string,
    work: Parameters<typeof lane>[1],
    options?: Parameters<typeof lane>[2],
  ) => {
    const made = await start([lane(name, work, options)], { pollMs: noPoll });
    await made.engine.offer({ scope: name, key: "1", body: "1" });
    await made.history.ended(1);
    const ran = made.history.ran[0]!.ran;
    return { ...made, ran, look: await made.engine.ledger.verbs.look({ scope: name, key: "1" }) };
  };

  it("that takes longer than its deadline is told so, and has failed", async () => {
    const told = gate<unknown>();
    const { ran, look } = await runOnce(
      "r1",
      (_task, run) => {
        run.signal.addEventListener("abort", () => told.open(run.signal.reason));
        return new Promise(() => {});
      },
      { deadlineMs: 20 },
    );
    expect(await told.promise).toMatchObject({ code: "deadline_passed" });
    expect(ran).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(look).toMatchObject({ state: "waiting", reason: expect.stringContaining("deadline of 20 ms") });
  });

  it("whose settings cannot be read has failed, and its claim is let go", async () => {
    const { ran, look } = await runOnce("settings", () => undefined, {
      settings: () => {
        throw new Error("no such duration");
      },
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(look).toMatchObject({ state: "waiting", reason: "no such duration" });
  });

  it("whose end meets a lock is told again, and does not run again", async () => {
    let runs = 0;
    const made = await start([lane("locked", () => void runs++)], { pollMs: noPoll });
    const busy = Object.assign(new Error("canceling statement due to lock timeout"), { code: "55P03" });
    made.watch.fail("complete_many", busy);
    made.watch.fail("complete", busy);
    await made.engine.offer({ scope: "locked", key: "1" });
    await made.watch.sentTimes("complete_many", 1);
    made.watch.fail("complete_many", undefined);
    made.watch.fail("complete", undefined);
    await made.history.ended(1);
    expect(made.history.outcomes()).toEqual(["done"]);
    expect(runs).toBe(1);
  });

  it("whose completion is answered by silence is told again, and counts as done", async () => {
    let runs = 0;
    const made = await start([lane("silent", () => void runs++)], { pollMs: noPoll });
    made.watch.loseAnswer("complete_many", new OncewardError("database_unavailable", "cut off"));
    await made.engine.offer({ scope: "silent", key: "1" });
    await made.history.ended(1);
    expect(made.history.outcomes()).toEqual(["done"]);
    expect(made.watch.count("complete_many")).toBe(2);
    expect(runs).toBe(1);
  });

  it("whose task is cancelled is told so, and nothing of it counts", async () => {
    const told = gate<unknown>();
    const made = await start(
      [
        lane("r2", (_task, run) => {
          run.signal.addEventListener("abort", () => told.open(run.signal.reason));
          return new Promise(() => {});
        }),
      ],
      { leaseMs: 150, pollMs: noPoll },
    );
    await made.engine.offer({ scope: "r2", key: "1", body: "1" });
    await made.engine.ledger.verbs.cancel({ scope: "r2", key: "1" });
    expect(await told.promise).toMatchObject({ code: "claim_lost" });
    await made.history.ended(1);
    expect(made.history.outcomes()).toEqual(["lost"]);
    expect(await made.engine.ledger.verbs.look({ scope: "r2", key: "1" })).toMatchObject({
      state: "cancelled",
    });
  });

  it("that outlives its lease, because it could not be renewed, is told so before another begins", async () => {
    const order: string[] = [];
    const told = gate();
    const made = await start(
      [
        lane("r3", (_task, run) => {
          run.signal.addEventListener("abort", () => {
            order.push("told");
            told.open();
          });
          return new Promise(() => {});
        }),
      ],
      { leaseMs: 3_000, pollMs: noPoll },
    );
    made.watch.fail("renew_many", new OncewardError("database_unavailable", "away"));
    await made.engine.offer({ scope: "r3", key: "1", body: "1" });
    const other = await start([lane("r3", () => order.push("begun"))], { pollMs: 20 });
    await other.history.ended(1);
    await told.promise;
    expect(order).toEqual(["told", "begun"]);
    expect(other.history.ran[0]!.task.attempt).toBe(2);
  });

  it("goes on for many leases while it is renewed", async () => {
    const made = await start([lane("r4", () => made.watch.sentTimes("renew_many", 6))], {
      leaseMs: 150,
      pollMs: 10,
    });
    await made.engine.offer({ scope: "r4", key: "1", body: "1" });
    await made.history.ended(1);
    expect(made.history.ran[0]).toMatchObject({ task: { attempt: 1 }, ran: { outcome: "done" } });
  });

  it("that says trying again cannot help is dead at once", async () => {
    const { ran, look } = await runOnce("r5", () => {
      throw new Fatal("the account is closed");
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "dead" });
    expect(look).toMatchObject({ state: "dead", reason: "the account is closed" });
  });

  it("of which nobody knows what it did is parked", async () => {
    const { ran } = await runOnce("r6", () => {
      throw new OncewardError("outcome_unknown", "was it sent?");
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown" });
  });

  it("that throws somebody else's lost claim has failed, and has not lost its own", async () => {
    const { ran } = await runOnce("r7", () => {
      throw new OncewardError("claim_lost", "of another task");
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "waiting" });
  });

  it("that throws something that is no error has failed", async () => {
    const { ran } = await runOnce("r8", () => {
      // oxlint-disable-next-line typescript/only-throw-error -- people do
      throw undefined;
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "waiting" });
  });

  it("for a caller who waits can be ended by the caller's signal", async () => {
    const made = await start([], { pollMs: noPoll });
    const waiting = lane("r9", () => new Promise(() => {}));
    const recorded = await made.engine.ledger.recordAndClaim({ scope: "r9", key: "1", body: "1" });
    expect(recorded.outcome).toBe("claimed");
    const claimed = await made.engine.ledger.verbs.claim(
      { scope: "r9", key: "1" },
      { leaseMs: 1, worker: "w" },
    );
    expect(claimed.outcome).toBe("running");
    const task = { scope: "r9", key: "1", attempt: 1, tries: 1 } as never;
    const controller = new AbortController();
    const ran = made.engine.runHere(waiting, task, { signal: controller.signal });
    controller.abort(new Error("the caller has gone"));
    expect(await ran).toMatchObject({ outcome: "failed", state: "waiting" });
  });
});
