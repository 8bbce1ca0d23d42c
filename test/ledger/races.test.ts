/** Many at once, on a real server: whatever the order of things, the promises hold. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import type { LaneLimit } from "../../src/ledger/lane.ts";
import { type Bench, claimDue, describeOnServer, freshLane, minute } from "./support.ts";

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

/** Three workers claim and complete until nothing of the lane is left; says what ran, and how many at once. */
async function drain(
  { worker }: Bench,
  lane: string,
  options: { tasks: number; limit?: LaneLimit; onIdle?: () => Promise<void> },
): Promise<{ order: string[]; most: number }> {
  const order: string[] = [];
  let running = 0;
  let most = 0;
  const run = async (ledger: Ledger, task: ClaimedTask): Promise<void> => {
    order.push(task.key);
    most = Math.max(most, ++running);
    await ledger.verbs.look(task); // something to do meanwhile
    running--; // before the completion: the next one may start as soon as that is committed
    expect(await ledger.complete(task)).toBe("done");
  };
  const loop = async (ledger: Ledger): Promise<void> => {
    const { leaseMs, worker: name } = ledger;
    const limits = options.limit && { [lane]: options.limit };
    while (order.length < options.tasks) {
      const { tasks } = await ledger.verbs.claimDue([lane], { max: 5, leaseMs, worker: name, limits });
      if (tasks.length === 0) await options.onIdle?.();
      await Promise.all(tasks.map((task) => run(ledger, task)));
    }
  };
  await Promise.all(["w1", "w2", "w3"].map((name) => loop(worker(name))));
  return { order, most };
}

describeOnServer(
  "newest",
  "races",
  (bench) => {
    it("200 takers of one task have one winner, 50 times", async () => {
      const { clock, worker } = bench();
      const scope = freshLane();
      const task = { scope, key: "k", maxTries: 9999 };
      await bench().ledger.record(task);
      const takers = times(200, (i) => worker(`w${i}`));
      for (let round = 1; round <= 50; round++) {
        const attempts = await Promise.all(
          takers.map(async ({ verbs, worker: name }, i) => {
            const lease = { leaseMs: minute, worker: name };
            // By name, as one that is due, and as a duplicate that was delivered again.
            if (i % 3 === 0) return (await verbs.claim(task, lease)) as { attempt?: number };
            if (i % 3 === 1) return (await verbs.claimDue([scope], { max: 5, ...lease })).tasks[0] ?? {};
            return (await verbs.record([task], lease))[0] as { attempt?: number };
          }),
        );
        expect(attempts.flatMap(({ attempt }) => attempt ?? [])).toEqual([round]);
        await clock.advance(minute + 1);
      }
    });

    it("what a killed process held comes back by itself", async () => {
      const { ledger, clock, url } = bench();
      const scope = freshLane();
      await ledger.verbs.record(times(3, (i) => ({ scope, key: `${i}` })));
      const child = fork(fileURLToPath(new URL("claim-and-hang.mjs", import.meta.url)), [url, scope]);
      const [held] = await once(child, "message");
      expect(held).toEqual(["0", "1", "2"]);
      child.kill("SIGKILL");
      await once(child, "exit");
      expect(await claimDue(ledger, scope)).toEqual([]);
      await clock.advance(minute + 1);
      const back = await claimDue(ledger, scope);
      expect(back.map(({ key, attempt }) => `${key} ${attempt}`).toSorted()).toEqual(["0 2", "1 2", "2 2"]);
      const { log } = (await ledger.verbs.look({ scope, key: "0" })) as { log: object[] };
      expect(log).toMatchObject([{ what: "lapsed", detail: "the lease of child ran out" }]);
    });

    it("of 1000 duplicates at once one runs, and unrelated keys go on meanwhile", async () => {
      const { worker } = bench();
      const scope = freshLane();
      const processes = times(4, (i) => worker(`p${i}`));
      const storm = times(1000, (i) => processes[i % 4]!.recordAndClaim({ scope, key: "hot", body: "{}" }));
      const others = times(200, (i) => processes[i % 4]!.recordAndClaim({ scope, key: `other ${i}` }));
      const outcomes = (await Promise.all(storm)).map((one) => one.outcome);
      expect(outcomes.filter((outcome) => outcome === "claimed")).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === "duplicate")).toHaveLength(999);
      for (const { outcome } of await Promise.all(others)) expect(outcome).toBe("claimed");
    });

    it("batches with the same keys in other orders do not deadlock", async () => {
      const { worker } = bench();
      const scope = freshLane();
      const keys = times(40, (i) => `${i}`);
      const orders = [keys, keys.toReversed(), keys.filter((_, i) => i % 2), keys.toSorted()];
      const lease = { leaseMs: minute, worker: "w" };
      const claimed = await Promise.all(
        times(40, (i) =>
          worker(`w${i}`).verbs.record(
            orders[i % 4]!.map((key) => ({ scope, key })),
            lease,
          ),
        ),
      );
      expect(claimed.flat().filter((one) => one.outcome === "claimed")).toHaveLength(40);
      const claims = keys.map((key) => ({ scope, key, attempt: 1 }));
      const done = await Promise.all(
        times(20, (i) => worker(`w${i}`).verbs.complete(i % 2 ? claims : claims.toReversed())),
      );
      expect(done.flat().filter((one) => one === "done")).toHaveLength(40);
    });

    it("three workers on one serial group never overlap, and keep its order", async () => {
      const { ledger } = bench();
      const scope = freshLane();
      const keys = times(60, (i) => `${i}`.padStart(2, "0"));
      for (const key of keys) await ledger.record({ scope, key, serial: "g" });
      const { order, most } = await drain(bench(), scope, { tasks: 60 });
      expect(most).toBe(1);
      expect(order).toEqual(keys);
    });

    it("three workers never run more of a group than it has slots, and use them", async () => {
      const { ledger } = bench();
      const scope = freshLane();
      await ledger.verbs.record(times(60, (i) => ({ scope, key: `${i}`, serial: "g", slots: 3 })));
      const { order, most } = await drain(bench(), scope, { tasks: 60 });
      expect(new Set(order).size).toBe(60);
      expect(order).toHaveLength(60);
      expect(most).toBeLessThanOrEqual(3);
      expect(most).toBeGreaterThan(1);
    });

    it("three workers never run more of a lane than its limit, and use it", async () => {
      const { ledger } = bench();
      const lane = freshLane();
      await ledger.verbs.record(times(60, (i) => ({ scope: `${lane}/${i % 4}`, key: `${i}`, slots: 9999 })));
      const { order, most } = await drain(bench(), lane, { tasks: 60, limit: { running: 4 } });
      expect(order).toHaveLength(60);
      expect(most).toBeLessThanOrEqual(4);
      expect(most).toBeGreaterThan(1);
    });

    it("three workers start no more of a lane than its rate allows", async () => {
      const { ledger, clock } = bench();
      await clock.freeze();
      const lane = freshLane();
      await ledger.verbs.record(times(40, (i) => ({ scope: `${lane}/${i % 4}`, key: `${i}` })));
      const began = await clock.now();
      const started: { at: number; n: number }[] = [];
      let n = 0;
      while (n < 40) {
        const claimed = await Promise.all(
          ["w1", "w2", "w3"].map((worker) =>
            ledger.verbs.claimDue([lane], {
              max: 10,
              leaseMs: 60 * minute,
              worker,
              limits: { [lane]: { rate: { limit: 6, perMs: minute } } },
            }),
          ),
        );
        n += claimed.flatMap(({ tasks }) => tasks).length;
        started.push({ at: (await clock.now()) - began, n });
        await clock.advance(7_000);
      }
      // At once no more than the limit, then as many as the time that passed allows.
      for (const { at, n: by } of started)
        expect(by).toBeLessThanOrEqual(6 + Math.floor((6 * at) / minute + 1e-6));
      expect(started[0]?.n).toBe(6);
      // And it is used: the 40th comes within a few steps of when it may.
      expect(started.at(-1)!.at).toBeLessThan(((40 - 6) / 6) * minute + 5 * 7_000);
    });

    it("a rate that is not a whole number of microseconds is neither exceeded nor lost", async () => {
      const { ledger, clock } = bench();
      await clock.freeze();
      for (const limit of [3, 6, 7, 1_000_000_000]) {
        const lane = freshLane();
        await ledger.verbs.record(times(30, (i) => ({ scope: lane, key: `${i}` })));
        const limits = { [lane]: { rate: { limit, perMs: 1_000 } } };
        const claim = async (): Promise<number> =>
          (await ledger.verbs.claimDue([lane], { max: 10, leaseMs: minute, worker: "w", limits })).tasks
            .length;
        const most = Math.min(limit, 10);
        expect(await claim()).toBe(most);
        await clock.advance(1_000);
        expect(await claim()).toBe(most);
      }
    });
  },
  60,
);
