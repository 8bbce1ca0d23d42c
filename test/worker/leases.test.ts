import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { Claim } from "../../src/ledger/task.ts";
import { Leases } from "../../src/worker/leases.ts";

const leaseMs = 60_000;
const claimOf = (key: string): Claim => ({ scope: "s", key, attempt: 1 });

/** A ledger that only renews, as the test says. */
function fakeLedger(renew: (claims: readonly Claim[]) => Promise<string[]>, single = false): Ledger {
  return { leaseMs, database: { single }, verbs: { renew } } as unknown as Ledger;
}

describe("leases", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("are renewed all together, by one statement, well before they end", async () => {
    const asked: number[] = [];
    const leases = new Leases(
      fakeLedger(async (claims) => {
        asked.push(claims.length);
        return claims.map(() => "renewed");
      }),
    );
    const held = Array.from({ length: 300 }, (_, i) => leases.hold(claimOf(`${i}`)));
    await vi.advanceTimersByTimeAsync(10 * leaseMs);
    // One statement for all, every third of a lease.
    expect(asked).toEqual(Array(30).fill(300));
    expect(held.some((lease) => lease.aborted)).toBe(false);
    for (const lease of held) leases.release(lease);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("abort the run whose claim is lost, and no other", async () => {
    const leases = new Leases(
      fakeLedger(async (claims) => claims.map(({ key }) => (key === "taken" ? "lost" : "renewed"))),
    );
    const taken = leases.hold(claimOf("taken"));
    const kept = leases.hold(claimOf("kept"));
    await vi.advanceTimersByTimeAsync(leaseMs / 2);
    expect(taken.signal.reason).toMatchObject({ code: "claim_lost" });
    expect(kept.signal.aborted).toBe(false);
  });

  it("abort every run before its lease ends while the database is away", async () => {
    let tries = 0;
    const leases = new Leases(
      fakeLedger(async () => {
        tries++;
        throw new Error("away");
      }),
    );
    const lease = leases.hold(claimOf("1"));
    await vi.advanceTimersByTimeAsync(leaseMs / 2);
    expect(lease.aborted).toBeUndefined();
    await vi.advanceTimersByTimeAsync(leaseMs / 2);
    expect(lease.lost).toBe(true);
    expect(tries).toBeGreaterThanOrEqual(3);
  });

  it("abort every run before its lease ends when the database never answers", async () => {
    const leases = new Leases(fakeLedger(() => new Promise(() => {})));
    const lease = leases.hold(claimOf("1"));
    await vi.advanceTimersByTimeAsync(leaseMs);
    expect(lease.lost).toBe(true);
  });

  it("go on when the database comes back in time", async () => {
    let away = true;
    const leases = new Leases(
      fakeLedger(async (claims) => {
        if (away) throw new Error("away");
        return claims.map(() => "renewed");
      }),
    );
    const lease = leases.hold(claimOf("1"));
    await vi.advanceTimersByTimeAsync(leaseMs / 2);
    away = false;
    await vi.advanceTimersByTimeAsync(2 * leaseMs);
    expect(lease.aborted).toBeUndefined();
  });

  it("are not given up by the clock where one session serves everybody", async () => {
    const leases = new Leases(fakeLedger(() => new Promise(() => {}), true));
    const lease = leases.hold(claimOf("1"));
    await vi.advanceTimersByTimeAsync(2 * leaseMs);
    expect(lease.aborted).toBeUndefined();
  });

  describe("after a pause of the whole process", () => {
    /** Time passes and no timer runs, as when the process was stopped. */
    const pause = (ms: number): void => {
      const now = performance.now();
      vi.spyOn(performance, "now").mockImplementation(() => now + ms);
    };
    /** The machine slept: its steady clock with it. */
    const sleep = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

    it.each([
      ["the process was stopped", pause],
      ["the machine slept", sleep],
    ])("ask before they go on: %s", async (_name, elapse) => {
      const renew = vi.fn(async (claims: readonly Claim[]) => claims.map(() => "lost"));
      const leases = new Leases(fakeLedger(renew));
      const lease = leases.hold(claimOf("1"));
      await leases.confirm(lease);
      expect(renew).not.toHaveBeenCalled();
      elapse(2 * leaseMs);
      await expect(leases.confirm(lease)).rejects.toMatchObject({ code: "claim_lost" });
      expect(lease.signal.aborted).toBe(true);
    });

    it("go on where nobody has taken over", async () => {
      const renew = vi.fn(async (claims: readonly Claim[]) => claims.map(() => "renewed"));
      const leases = new Leases(fakeLedger(renew));
      const lease = leases.hold(claimOf("1"));
      sleep(2 * leaseMs);
      await leases.confirm(lease);
      await leases.confirm(lease);
      expect(renew).toHaveBeenCalledTimes(1);
      expect(lease.aborted).toBeUndefined();
    });

    it("ask at the first look, and do not give up before they have", async () => {
      const renew = vi.fn(async (claims: readonly Claim[]) => claims.map(() => "renewed"));
      const leases = new Leases(fakeLedger(renew));
      const lease = leases.hold(claimOf("1"));
      sleep(2 * leaseMs);
      await vi.advanceTimersByTimeAsync(leaseMs / 6);
      expect(renew).toHaveBeenCalledTimes(1);
      expect(lease.aborted).toBeUndefined();
    });
  });

  it("do not mistake a task that has just finished for one that was taken over", async () => {
    const leases = new Leases(fakeLedger(async (claims) => claims.map(() => "lost")));
    const lease = leases.hold(claimOf("1"));
    lease.ended = true;
    await vi.advanceTimersByTimeAsync(leaseMs / 2);
    expect(lease.aborted).toBeUndefined();
  });

  it("count from when the claim was asked for, not from when it came", async () => {
    const renew = vi.fn(async (claims: readonly Claim[]) => claims.map(() => "renewed"));
    const leases = new Leases(fakeLedger(renew));
    const asked = { steady: performance.now() - leaseMs, wall: Date.now() - leaseMs };
    await leases.confirm(leases.hold(claimOf("1"), asked));
    expect(renew).toHaveBeenCalledTimes(1);
  });
});
