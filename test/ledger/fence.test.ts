/** The fence (I4), bounded attempts (I6) and fair shares (I10), on every Postgres we promise. */
import pg from "pg";
import { describe, expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import { describeWith } from "../support/postgres.ts";
import {
  type Bench,
  claimDue,
  claimOne,
  describeOnEach,
  freshLane,
  keysOf,
  minute,
  openBench,
  urlOf,
} from "./support.ts";

/** What each write of a run answers. */
async function writes({ ledger }: Bench, claim: ClaimedTask): Promise<Record<string, unknown>> {
  const { verbs } = ledger;
  return {
    renew: (await verbs.renew([claim], minute))[0],
    step: (await verbs.saveSteps([{ ...claim, name: "charge", state: "done", value: '"zombie"' }]))[0],
    complete: (await verbs.complete([{ ...claim, result: '"zombie"' }]))[0],
    // One alone and several have a statement each.
    "complete with others": (
      await verbs.complete([
        { ...claim, result: '"zombie"' },
        { ...claim, key: "nobody" },
      ])
    )[0],
    fail: (await verbs.fail([{ ...claim, reason: "zombie", retry: "never" }]))[0],
    defer: await verbs.defer(claim),
  };
}
const lost = {
  renew: "lost",
  step: "lost",
  complete: "lost",
  "complete with others": "lost",
  fail: "lost",
  defer: "lost",
};

describeOnEach("the fence", (bench) => {
  it("a zombie can neither complete, fail, renew, defer nor save a step of what another worker took over", async () => {
    const { clock, worker, ledger } = bench();
    const scope = freshLane();
    await ledger.record({ scope, key: "k" });
    const zombie = await claimOne(ledger, scope, "k");
    await clock.advance(minute + 1); // It was paused past its lease.
    const heir = await claimOne(worker("heir"), scope, "k");
    const before = await ledger.verbs.look(zombie);
    expect(await writes(bench(), zombie)).toEqual(lost);
    expect(await ledger.verbs.look(zombie)).toEqual(before);
    expect(await worker("heir").complete({ ...heir, result: '"heir"' })).toBe("done");
    expect(await writes(bench(), zombie)).toEqual(lost);
    expect(await ledger.verbs.look(zombie)).toMatchObject({ state: "done", result: '"heir"', steps: [] });
  });

  it("nor of what was cancelled, given back, replayed, or has failed", async () => {
    const { ledger, clock } = bench();
    const ends: Record<string, (claim: ClaimedTask) => Promise<unknown>> = {
      cancelled: (claim) => ledger.verbs.cancel(claim),
      "given back": (claim) => ledger.verbs.defer(claim),
      failed: (claim) => ledger.fail({ ...claim, reason: "x", retry: { afterMs: minute } }),
      dead: (claim) => ledger.fail({ ...claim, reason: "x", retry: "never" }),
      "cancelled and replayed": async (claim) => {
        await ledger.verbs.cancel(claim);
        await ledger.verbs.replay([claim]);
      },
      "done and replayed": async (claim) => {
        await ledger.complete(claim);
        await ledger.verbs.replay([claim], { again: true });
        await claimOne(ledger, claim.scope, claim.key);
      },
      "lapsed and replayed": async (claim) => {
        await clock.advance(minute + 1);
        await ledger.verbs.replay([claim]);
      },
    };
    for (const [key, end] of Object.entries(ends)) {
      const scope = freshLane();
      await ledger.record({ scope, key });
      const claim = await claimOne(ledger, scope, key);
      await end(claim);
      const before = await ledger.verbs.look(claim);
      expect({ [key]: await writes(bench(), claim) }).toEqual({ [key]: lost });
      expect(await ledger.verbs.look(claim)).toEqual(before);
    }
  });

  it("who was late but has not been taken over may still finish", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await ledger.record({ scope, key: "k" });
    const claim = await claimOne(ledger, scope, "k");
    await clock.advance(10 * minute);
    expect(await ledger.complete(claim)).toBe("done");
    expect(await claimDue(ledger, scope)).toEqual([]);
  });

  it("the attempt only ever rises", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    const task = { scope, key: "k" };
    await ledger.record(task);
    const seen: number[] = [];
    for (let i = 0; i < 3; i++) {
      seen.push((await claimOne(ledger, scope, "k")).attempt);
      await clock.advance(minute + 1);
      seen.push((await claimOne(ledger, scope, "k")).attempt);
      await ledger.verbs.cancel(task);
      await ledger.verbs.replay([task]);
    }
    expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => a - b));
  });
});

describeOnEach("attempts", (bench) => {
  it("of what kills its process every time are bounded: it ends as dead, with a reason", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await ledger.record({ scope, key: "poison", maxTries: 5, body: "boom" });
    let attempts = 0;
    for (let i = 0; i < 20; i++) {
      attempts += (await claimDue(ledger, scope)).length; // and never an answer
      await clock.advance(minute + 1);
    }
    expect(attempts).toBe(5);
    const known = await ledger.verbs.look({ scope, key: "poison" });
    expect(known).toMatchObject({
      state: "dead",
      tries: 5,
      due_at: null,
      reason: "gave up: 5 attempts ended without an answer",
    });
    const log = (known?.["log"] as { what: string }[]).map((one) => one.what);
    expect(log).toEqual([...Array<string>(5).fill("lapsed"), "dead"]);
    expect(await ledger.verbs.payload({ scope, key: "poison" })).toBe("boom");
  });

  it("are bounded too where a sender delivers it again each time", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    const outcomes: string[] = [];
    for (let i = 0; i < 6; i++) {
      outcomes.push((await ledger.recordAndClaim({ scope, key: "poison", maxTries: 3 })).outcome);
      await clock.advance(minute + 1);
    }
    expect(outcomes).toEqual(["claimed", "claimed", "claimed", "duplicate", "duplicate", "duplicate"]);
    expect(await ledger.verbs.look({ scope, key: "poison" })).toMatchObject({ state: "dead", tries: 3 });
  });

  it("that failed are named in the reason, and a replay gives them back", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k", maxTries: 2 });
    await ledger.fail({ scope, key: "k", attempt: 1, reason: "out of memory", retry: "backoff" });
    await clock.advance(minute);
    await claimOne(ledger, scope, "k");
    await clock.advance(minute + 1);
    expect(await claimDue(ledger, scope)).toEqual([]);
    const { reason } = (await ledger.verbs.look({ scope, key: "k" })) as { reason: string };
    expect(reason).toBe("gave up: 2 attempts ended without an answer; the last known failure: out of memory");
    await ledger.verbs.replay([{ scope, key: "k" }]);
    expect(await claimOne(ledger, scope, "k")).toMatchObject({ tries: 1, maxTries: 2 });
  });

  it("of the dead do not keep the living from their turn", async () => {
    const { ledger, clock } = bench();
    const scope = freshLane();
    const poison = Array.from({ length: 12 }, (_, i) => ({ scope, key: `poison ${i}`, maxTries: 1 }));
    await ledger.verbs.record(poison, { leaseMs: minute, worker: "w" });
    await clock.advance(minute + 1);
    await ledger.record({ scope, key: "fine" });
    expect(keysOf(await claimDue(ledger, scope, 3))).toEqual(["fine"]);
  });
});

describeOnEach("fair shares", (bench) => {
  const lease = { leaseMs: minute, worker: "w" };

  it("one scope with a long backlog does not starve the others, whatever their number", async () => {
    const { ledger } = bench();
    const lane = freshLane();
    const scopes = Array.from({ length: 450 }, (_, i) => `${lane}/${String(i).padStart(3, "0")}`);
    const backlog = scopes.flatMap((scope) => [
      { scope, key: "1" },
      { scope, key: "2" },
    ]);
    const hot = Array.from({ length: 1000 }, (_, i) => ({ scope: scopes[3]!, key: `hot ${i}` }));
    await ledger.verbs.record([...hot, ...backlog]);
    // In one walk over all scopes, each gets its first.
    const seen = new Set<string>();
    let after: string | null = null;
    let calls = 0;
    do {
      const due = await ledger.verbs.claimDue([lane], { max: 50, ...lease, after });
      for (const { scope } of due.tasks) seen.add(scope);
      after = due.after;
      calls++;
    } while (after !== null);
    expect(seen.size).toBe(450);
    expect(calls).toBeLessThanOrEqual(10);
  });

  it("a lane whose name continues that of a busy one gets its turn", async () => {
    const { ledger } = bench();
    const lane = freshLane();
    const lanes = [lane, `${lane}-eu`, `${lane}A`, `${lane}b`, `${lane}_x`];
    for (const name of lanes) {
      const scopes = name === lane ? [name, `${name}/a`, `${name}/b`, `${name}/c`] : [name];
      const tasks = scopes.flatMap((scope) => Array.from({ length: 40 }, (_, i) => ({ scope, key: `${i}` })));
      await ledger.verbs.record(tasks);
    }
    const seen = new Set<string>();
    let after: string | null = null;
    for (let call = 0; call < 8; call++) {
      const due = await ledger.verbs.claimDue(lanes, { max: 1, ...lease, after });
      for (const { scope } of due.tasks) seen.add(scope);
      after = due.after;
    }
    expect([...seen].toSorted()).toEqual([...lanes, `${lane}/a`, `${lane}/b`, `${lane}/c`].toSorted());
  });

  it("a hot key that is delivered again and again does not hold up its scope", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "hot" });
    const again = Array.from({ length: 300 }, () => ledger.recordAndClaim({ scope, key: "hot" }));
    const others = Array.from({ length: 30 }, (_, i) => ledger.recordAndClaim({ scope, key: `${i}` }));
    for (const { outcome } of await Promise.all(others)) expect(outcome).toBe("claimed");
    for (const { outcome } of await Promise.all(again)) expect(outcome).toBe("duplicate");
    const { log } = (await ledger.verbs.look({ scope, key: "hot" })) as { log: unknown[] };
    expect(log).toEqual([]); // A duplicate writes nothing.
  });
});

describe("a database with another order of text", () => {
  describeWith("newest", "sorted as people do (ICU)", (fresh) => {
    it("gives every lane its turn all the same", async (context) => {
      const url = urlOf(fresh);
      if (url === undefined) return;
      const admin = pgDatabase(url);
      const name = `icu_${process.pid}`;
      try {
        await admin.query(
          `create database ${name} template template0 encoding 'UTF8' locale_provider icu icu_locale 'en-US' locale 'C'`,
        );
      } catch (error) {
        await admin.close();
        return context.skip(`this Postgres has no ICU: ${(error as Error).message}`);
      }
      const other = new URL(url);
      other.pathname = `/${name}`;
      const pool = new pg.Pool({ connectionString: other.href });
      const bench = await openBench(pgDatabase(pool));
      try {
        const lanes = ["a", "a-b", "a_c", "aB", "B", "b", "Z", "é"];
        for (const lane of lanes) {
          const scopes = [lane, `${lane}/1`, `${lane}/Z`];
          for (const scope of scopes)
            await bench.ledger.verbs.record([
              { scope, key: "1" },
              { scope, key: "2" },
            ]);
        }
        const seen: string[] = [];
        let after: string | null = null;
        do {
          const due = await bench.ledger.verbs.claimDue(lanes, {
            max: 1,
            leaseMs: minute,
            worker: "w",
            after,
          });
          seen.push(...due.tasks.map((task) => task.scope));
          after = due.after;
        } while (after !== null);
        expect(seen).toHaveLength(24);
        expect(new Set(seen).size).toBe(24);
      } finally {
        await pool.end();
        await admin.query(`drop database ${name} with (force)`);
        await admin.close();
      }
    });
  });
});
