/** What happens between sessions: one holds a lock or has not committed yet while another one calls a verb. */
import { expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { describeWith } from "../support/postgres.ts";
import { openSession, type Session, untilBlocked } from "./sessions.ts";
import {
  type Bench,
  claimDue,
  claimOne,
  describeOnServer,
  freshLane,
  keysOf,
  minute,
  recordAll,
} from "./support.ts";

const lease = { leaseMs: minute, worker: "w2" };

for (const which of ["newest", "oldest"] as const) {
  describeOnServer(which, "between sessions", (bench) => {
    /** Runs `work` beside a session with an open transaction, and ends that whatever happens. */
    async function besides(
      work: (session: Session, verbs: Verbs, on: Bench) => Promise<void>,
    ): Promise<void> {
      const session = await openSession(bench().url);
      try {
        await session.query("begin");
        await work(session, new Verbs(session, "onceward"), bench());
      } finally {
        await session.end();
      }
    }

    it("a lease that ran out while a taker waited on a lock is taken over", () =>
      besides(async (session, _, { ledger, clock, database }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "k" });
        await session.query("select from onceward.task where scope = $1::text for update", [scope]);
        const taking = ledger.verbs.claim({ scope, key: "k" }, lease);
        await untilBlocked(database, 1);
        await clock.advance(minute + 1);
        await session.query("commit");
        expect(await taking).toMatchObject({ outcome: "claimed", attempt: 2 });
      }));

    it("a taker who waited while the claim was renewed does not take it", () =>
      besides(async (session, holder, { ledger, clock, database }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "k" });
        await clock.advance(minute + 1);
        expect(await holder.renew([{ scope, key: "k", attempt: 1 }], minute)).toEqual(["renewed"]);
        const taking = ledger.verbs.claim({ scope, key: "k" }, lease);
        await untilBlocked(database, 1);
        expect(await claimDue(ledger, scope)).toEqual([]); // passes by at once
        await session.query("commit");
        expect(await taking).toMatchObject({ outcome: "running" });
      }));

    it("who says again what it has said, while that is not committed yet, hears that it is done", async () => {
      type Say = (verbs: Verbs, claim: { scope: string; key: string; attempt: number }) => Promise<unknown[]>;
      const say: Record<string, Say> = {
        kept: (verbs, claim) => verbs.complete([claim]),
        "kept,lost": (verbs, claim) => verbs.complete([claim, { ...claim, key: "none" }]),
        done: (verbs, claim) => verbs.fail([{ ...claim, reason: "cut off", retry: "never" }]),
      };
      for (const [answer, again] of Object.entries(say)) {
        await besides(async (session, before, { ledger, database }) => {
          const claim = { scope: freshLane(), key: "k", attempt: 1 };
          await ledger.recordAndClaim(claim);
          expect(await before.complete([claim])).toEqual(["done"]);
          const answered = again(ledger.verbs, claim);
          await untilBlocked(database, 1);
          await session.query("commit");
          expect((await answered).join()).toBe(answer);
        });
      }
    });

    it("a zombie who waits while another one takes over finds its write lost", async () => {
      const write: ((
        verbs: Verbs,
        claim: { scope: string; key: string; attempt: number },
      ) => Promise<unknown>)[] = [
        async (verbs, claim) => (await verbs.complete([claim]))[0],
        async (verbs, claim) => (await verbs.fail([{ ...claim, reason: "x", retry: "never" }]))[0],
        async (verbs, claim) => (await verbs.saveSteps([{ ...claim, name: "a", state: "done" }]))[0],
        (verbs, claim) => verbs.defer(claim),
        (verbs, claim) => verbs.defer(claim, { delayMs: "forever", signal: "s" }),
      ];
      for (const zombie of write) {
        await besides(async (session, taker, { ledger, clock, database }) => {
          const scope = freshLane();
          await ledger.recordAndClaim({ scope, key: "k" });
          await clock.advance(minute + 1);
          expect(await taker.claim({ scope, key: "k" }, lease)).toMatchObject({
            outcome: "claimed",
            attempt: 2,
          });
          const late = zombie(ledger.verbs, { scope, key: "k", attempt: 1 });
          await untilBlocked(database, 1);
          await session.query("commit");
          expect(await late).toBe("lost");
          expect(await ledger.verbs.look({ scope, key: "k" })).toMatchObject({
            state: "running",
            attempt: 2,
            steps: [],
          });
        });
      }
    });

    it("nobody takes a task over between the look at the attempt and the write of a step", () =>
      besides(async (session, holder, { ledger, clock, database }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "k" });
        await clock.advance(minute + 1);
        const step = { scope, key: "k", attempt: 1, name: "mail", state: "done" } as const;
        expect(await holder.saveSteps([step])).toEqual(["saved"]);
        expect(await claimDue(ledger, scope)).toEqual([]);
        const taking = ledger.verbs.claim({ scope, key: "k" }, lease);
        await untilBlocked(database, 1);
        await session.query("commit");
        expect(await taking).toMatchObject({ outcome: "claimed", task: { steps: [{ name: "mail" }] } });
      }));

    it("a renewal is not late for all because one of them is being completed", () =>
      besides(async (session, holder, { ledger }) => {
        const scope = freshLane();
        for (const key of ["a", "b"]) await ledger.recordAndClaim({ scope, key });
        expect(await holder.complete([{ scope, key: "a", attempt: 1 }])).toEqual(["done"]);
        const claims = ["a", "b"].map((key) => ({ scope, key, attempt: 1 }));
        expect(await ledger.verbs.renew(claims, minute)).toEqual(["renewed", "renewed"]);
        await session.query("commit");
        expect(await ledger.verbs.renew(claims, minute)).toEqual(["lost", "renewed"]);
      }));

    it("a record that rolls back leaves its key to the one who waited", () =>
      besides(async (session, other, { ledger, database }) => {
        const scope = freshLane();
        expect(await other.record([{ scope, key: "k", body: "mine" }])).toMatchObject([
          { outcome: "recorded" },
        ]);
        const waiting = ledger.record({ scope, key: "k", body: "theirs" });
        await untilBlocked(database, 1);
        await session.query("rollback");
        expect(await waiting).toEqual({ outcome: "recorded" });
        expect(await ledger.verbs.payload({ scope, key: "k" })).toBe("theirs");
      }));

    it.each([
      { how: "alone", keys: ["busy"] },
      { how: "in a batch", keys: ["a", "busy", "z"] },
      { how: "with options", keys: ["a", "busy", "z"], options: { priority: 1 } },
    ])("a claim that waited for another record has its whole lease before it: $how", ({ keys, options }) =>
      besides(async (session, other, { ledger, clock, database }) => {
        const scope = freshLane();
        await other.record([{ scope, key: "busy" }]);
        const tasks = keys.map((key) => ({ scope, key, ...options }));
        const waiting = ledger.verbs.record(tasks, lease);
        await untilBlocked(database, 1);
        await clock.advance(minute + 1);
        await session.query("rollback");
        for (const answer of await waiting) expect(answer).toEqual({ outcome: "claimed", attempt: 1 });
        await clock.advance(minute - 5_000);
        expect(await claimDue(ledger, scope)).toEqual([]);
        await clock.advance(10_000);
        expect(keysOf(await claimDue(ledger, scope)).toSorted()).toEqual(keys);
      }),
    );

    it("an effect key that rolls back is taken by the one who waited", () =>
      besides(async (session, other, { ledger, database }) => {
        const scope = freshLane();
        expect(await other.once("k", { scope })).toBe(true);
        const waiting = ledger.verbs.once("k", { scope });
        await untilBlocked(database, 1);
        await session.query("rollback");
        expect(await waiting).toBe(true);
      }));

    it("effect keys are taken in one order, whatever order they are asked for in", () =>
      besides(async (session, other, { ledger, database }) => {
        const scope = freshLane();
        const take = (verbs: Verbs, keys: string[]): Promise<unknown> =>
          verbs.call("once_many", [keys.map(() => scope), keys, null]);
        await other.once("a", { scope });
        // Who took "b" before he waits for "a" would have each wait for the other.
        const waiting = take(ledger.verbs, ["b", "c", "a", "b"]);
        await untilBlocked(database, 1);
        expect(await take(other, ["b", "a"])).toEqual([true, false]);
        await session.query("commit");
        expect(await waiting).toEqual([false, true, false, false]);
        expect(await take(ledger.verbs, [])).toEqual([]);
      }));

    it("a move that was refused because somebody else was moving is decided by what that one did", () =>
      besides(async (session, other, { ledger, database }) => {
        const machine = freshLane();
        const pay = { machine, subject: "s", move: "pay", from: ["new"], to: "paid", initial: "new" };
        expect(await other.move(pay)).toMatchObject({ outcome: "moved" });
        const waiting = ledger.verbs.move(pay);
        await untilBlocked(database, 1);
        await session.query("commit");
        expect(await waiting).toEqual({ outcome: "refused", state: "paid", version: 1 });
      }));

    it("a signal that commits while the task decides to wait for it wakes it", () =>
      besides(async (session, sender, { ledger, database }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "k" });
        await ledger.saveStep({ scope, key: "k", attempt: 1, name: "go", state: "waiting" });
        expect(await sender.signal({ scope, key: "k" }, { name: "go" })).toEqual({ outcome: "sent" });
        const deferring = ledger.verbs.defer(
          { scope, key: "k", attempt: 1 },
          { delayMs: "forever", signal: "go" },
        );
        await untilBlocked(database, 1);
        await session.query("commit");
        expect(await deferring).toBe("waiting");
        expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
      }));

    it("a signal that comes while the task is being put to sleep wakes it", () =>
      besides(async (session, holder, { ledger, database }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "k" });
        await holder.saveSteps([{ scope, key: "k", attempt: 1, name: "go", state: "waiting" }]);
        await holder.defer({ scope, key: "k", attempt: 1 }, { delayMs: "forever", signal: "go" });
        const sending = ledger.verbs.signal({ scope, key: "k" }, { name: "go" });
        await untilBlocked(database, 1);
        await session.query("commit");
        expect(await sending).toEqual({ outcome: "sent" });
        expect(keysOf(await claimDue(ledger, scope))).toEqual(["k"]);
      }));

    it("a group does not overlap when an older task commits late", () =>
      besides(async (session, late, { ledger }) => {
        const scope = freshLane();
        await late.record([{ scope, key: "older", serial: "g" }]);
        await recordAll(ledger, [{ scope, key: "younger", serial: "g" }]);
        expect(keysOf(await claimDue(ledger, scope))).toEqual(["younger"]);
        await session.query("commit");
        expect(await claimDue(ledger, scope)).toEqual([]);
        await ledger.complete({ scope, key: "younger", attempt: 1 });
        expect(keysOf(await claimDue(ledger, scope))).toEqual(["older"]);
      }));

    it("who works on a group for long holds up that group alone, however many of it are due first", () =>
      besides(async (session, other, { ledger }) => {
        const scope = freshLane();
        const inGroup = (serial: string): { scope: string; key: string; serial: string }[] =>
          Array.from({ length: 12 }, (_, i) => ({ scope, key: `${serial} ${i}`, serial }));
        await ledger.verbs.record([...inGroup("g"), ...inGroup("h")]);
        await recordAll(ledger, [
          { scope, key: "i 0", serial: "i" },
          { scope, key: "alone" },
          { scope, key: "later", priority: -1 },
        ]);
        for (const key of ["g 11", "h 11"]) await other.cancel({ scope, key });
        for (const key of ["i 0", "alone", "later"])
          expect(keysOf(await claimDue(ledger, scope, 1))).toEqual([key]);
        const due = await ledger.verbs.claimDue([scope], { max: 10, ...lease });
        expect(due.tasks).toEqual([]);
        expect(due.nextInMs).toBeGreaterThan(10_000); // Nobody comes back at once for these.
        await session.query("rollback");
        expect(keysOf(await claimDue(ledger, scope)).toSorted()).toEqual(["g 0", "h 0"]);
      }));

    it("a line goes on within a minute where somebody held the row of the next one when its turn came", () =>
      besides(async (session, other, { ledger, clock }) => {
        const scope = freshLane();
        const keys = ["1", "2", "3", "4", "5"];
        await ledger.verbs.record(keys.map((key) => ({ scope, key, serial: "g" })));
        for (const key of ["1", "2"]) {
          const [task] = await claimDue(ledger, scope);
          expect(task).toMatchObject({ key });
          // Anything that does not change it: this one is no answer to a step that waits.
          if (key === "2") await other.signal({ scope, key: "3" }, { name: "hello" });
          await ledger.complete(task!);
        }
        expect(await claimDue(ledger, scope)).toEqual([]);
        await session.query("commit");
        await clock.advance(minute + 1);
        for (const key of ["3", "4", "5"]) {
          const [task] = await claimDue(ledger, scope);
          expect(task).toMatchObject({ key });
          await ledger.complete(task!);
        }
      }));

    it("completing one of a group and cancelling the next at once do not deadlock", () =>
      besides(async (session, _, { ledger, database }) => {
        const scope = freshLane();
        const keys = ["1", "2", "3"];
        await recordAll(
          ledger,
          keys.map((key) => ({ scope, key, serial: "g" })),
        );
        const running = await claimOne(ledger, scope, "1");
        expect(await claimDue(ledger, scope)).toEqual([]); // the others step aside
        // Both have locked their rows and want the group, the completion first.
        await session.query("select pg_advisory_xact_lock(onceward.group_lock($1::text, 'g'))::text", [
          scope,
        ]);
        const completing = ledger.complete(running);
        await untilBlocked(database, 1);
        const cancelling = ledger.verbs.cancel({ scope, key: "2" });
        await untilBlocked(database, 2);
        await session.query("commit");
        expect(await completing).toBe("done");
        expect(await cancelling).toEqual({ outcome: "cancelled" });
        expect(keysOf(await claimDue(ledger, scope))).toEqual(["3"]);
      }));

    it("a batch that claims what is known passes by what somebody is finishing, and does not deadlock with it", () =>
      besides(async (session, holder, { ledger, clock, database }) => {
        const scope = freshLane();
        const group = { serial: "g", slots: 5 };
        await ledger.verbs.record([
          { scope, key: "a", ...group },
          { scope, key: "b" },
          { scope, key: "c", ...group },
        ]);
        await claimOne(ledger, scope, "b");
        const late = await claimOne(ledger, scope, "c");
        await clock.advance(minute + 1);
        expect(await holder.complete([{ scope, key: "b", attempt: 1 }])).toEqual(["done"]);
        const batch = ["a", "b", "c"].map((key) => ({ scope, key }));
        // A batch that waited for "b" here, with the group of "a", would deadlock with who completes "c".
        expect(await new Verbs(database, "onceward").record(batch, lease)).toMatchObject([
          { outcome: "claimed", attempt: 1 },
          { outcome: "duplicate", state: "running" },
          { outcome: "claimed", attempt: 2 },
        ]);
        await session.query("commit");
        expect(await ledger.complete(late)).toBe("lost");
      }));

    it("an open transaction that has recorded a key holds up only who records that key", () =>
      besides(async (session, open, { ledger }) => {
        const scope = freshLane();
        const others = (from: number): Promise<unknown[]> =>
          Promise.all(
            Array.from({ length: 40 }, (_, i) => ledger.recordAndClaim({ scope, key: `${from + i}` })),
          );
        await open.record([{ scope, key: "hot" }]);
        // In one statement with the others, then alone.
        const hot = [ledger.recordAndClaim({ scope, key: "hot" })];
        for (const answer of await others(0)) expect(answer).toMatchObject({ outcome: "claimed" });
        for (let i = 0; i < 50; i++) hot.push(ledger.recordAndClaim({ scope, key: "hot" }));
        for (const answer of await others(100)) expect(answer).toMatchObject({ outcome: "claimed" });
        await session.query("commit");
        const answers = (await Promise.all(hot)).map(({ outcome }) => outcome);
        expect(answers.toSorted()).toEqual(["claimed", ...Array<string>(50).fill("duplicate")]);
      }));

    it("whoever records such a key is told that it is busy, in good time for his sender", () =>
      besides(async (session, open, { ledger }) => {
        const task = { scope: freshLane(), key: "hot" };
        await open.record([task]);
        await expect(ledger.record(task)).rejects.toMatchObject({ code: "key_busy", status: 503 });
        await session.query("rollback");
        expect(await ledger.record(task)).toEqual({ outcome: "recorded" });
      }));

    it("an open transaction that holds a task holds up the end of that one alone", () =>
      besides(async (session, _, { ledger }) => {
        const scope = freshLane();
        const claims = ["held", "a", "b"].map((key) => ({ scope, key, attempt: 1 }));
        for (const claim of claims) await ledger.recordAndClaim(claim);
        await session.query("select from onceward.task where scope = $1::text and key = 'held' for update", [
          scope,
        ]);
        const [held, ...others] = claims.map((claim) => ledger.complete(claim));
        expect(await Promise.all(others)).toEqual(["done", "done"]);
        await session.query("commit");
        expect(await held).toBe("done");
      }));

    it("a storm of duplicates of what is being completed does not hold up the others", () =>
      besides(async (session, holder, { ledger }) => {
        const scope = freshLane();
        await ledger.recordAndClaim({ scope, key: "hot" });
        expect(await holder.complete([{ scope, key: "hot", attempt: 1 }])).toEqual(["done"]);
        const storm = Array.from({ length: 1000 }, () => ledger.recordAndClaim({ scope, key: "hot" }));
        const others = Array.from({ length: 100 }, (_, i) =>
          ledger.recordAndClaim({ scope, key: `other ${i}` }),
        );
        // All of them are answered while the completion is not committed yet.
        for (const answer of await Promise.all(others)) expect(answer).toMatchObject({ outcome: "claimed" });
        for (const answer of await Promise.all(storm))
          expect(answer).toEqual({ outcome: "duplicate", state: "running" });
        await session.query("commit");
      }));
  });
}

describeWith("newest", "by the real clock", (fresh) => {
  it("a lease that ran out while a taker waited on a lock is taken over", async () => {
    const database = pgDatabase(fresh().url);
    const session = await openSession(fresh().url);
    try {
      await migrate(database);
      const verbs = new Verbs(database, "onceward");
      const task = { scope: "s", key: "k" };
      await verbs.record([task], { leaseMs: 500, worker: "w1" });
      await session.query("begin");
      await session.query("select from onceward.task for update");
      const taking = verbs.claim(task, lease);
      await untilBlocked(database, 1);
      // The taker's statement began before this moment: SQL's now() stands still there.
      for (let ended = false; !ended;) {
        const { rows } = await database.query(
          "select clock_timestamp() > due_at as ended from onceward.task",
        );
        ended = rows[0]?.["ended"] as boolean;
      }
      await session.query("commit");
      expect(await taking).toMatchObject({ outcome: "claimed", attempt: 2 });
    } finally {
      await session.end();
      await database.close();
    }
  });
});
