import { expect, it } from "vitest";
import type { Opened, Suite } from "../conformance.ts";
import { claimOne, freshLane, minute } from "../support.ts";

/** Every verb that writes, inside one transaction; `key` makes its subjects its own. */
async function writeAll(verbs: Suite["verbs"], scope: string): Promise<unknown[]> {
  const claim = { leaseMs: minute, worker: "w" };
  const tasks = ["done", "failed", "deferred"].map((key) => ({ scope, key }));
  return [
    (await verbs.record([{ scope, key: "job" }]))[0]?.outcome,
    ...(await verbs.record(tasks, claim)).map((one) => one.outcome),
    (await verbs.claim({ scope, key: "job" }, claim)).outcome,
    ...(await verbs.saveSteps([{ scope, key: "done", attempt: 1, name: "a", state: "done" }])),
    ...(await verbs.complete([{ scope, key: "done", attempt: 1, result: "1" }])),
    ...(await verbs.fail([{ scope, key: "failed", attempt: 1, reason: "x", retry: "never" }])),
    await verbs.defer({ scope, key: "deferred", attempt: 1 }),
    (await verbs.signal({ scope, key: "deferred" }, { name: "go" })).outcome,
    await verbs.once(`effect of ${scope}`),
    (await verbs.move({ machine: scope, subject: "s", move: "m", from: ["a"], to: "b", initial: "a" }))
      .outcome,
    (await verbs.cancel({ scope, key: "job" })).outcome,
    (await verbs.replay([{ scope, key: "failed" }]))[0]?.outcome,
  ];
}

const written = [
  "recorded",
  "claimed",
  "claimed",
  "claimed",
  "claimed",
  "saved",
  "done",
  "dead",
  "waiting",
  "sent",
  true,
  "moved",
  "cancelled",
  "replayed",
];

export function transactionSuite<Tx>(suite: () => Suite, opened: () => Opened<Tx>): void {
  const own = async (): Promise<string> => {
    const table = freshLane();
    await opened().database.query(`create table ${table} (id text primary key)`);
    return table;
  };
  const count = async (table: string): Promise<unknown> => {
    const { rows } = await opened().database.query(`select to_jsonb(count(*)) as n from ${table}`);
    return rows[0]?.["n"];
  };

  it("commits the verbs together with the caller's rows", async () => {
    const { ledger, verbs } = suite();
    const table = await own();
    await opened().database.transaction(async (tx, queryable) => {
      await opened().run(tx, `insert into ${table} values ('x')`);
      expect(await writeAll(ledger.within(queryable), table)).toEqual(written);
    });
    expect(await count(table)).toBe(1);
    expect(await verbs.look({ scope: table, key: "done" })).toMatchObject({ state: "done", result: "1" });
    expect(await verbs.look({ scope: table, key: "deferred" })).toMatchObject({ state: "waiting" });
    expect(await verbs.once(`effect of ${table}`)).toBe(false);
    expect(await verbs.machineState(table, "s")).toMatchObject({ state: "b" });
  });

  it("rolls the verbs back together with the caller's rows", async () => {
    const { ledger, verbs } = suite();
    const table = await own();
    const rolledBack = opened().database.transaction(async (tx, queryable) => {
      await opened().run(tx, `insert into ${table} values ('x')`);
      expect(await writeAll(ledger.within(queryable), table)).toEqual(written);
      throw new Error("the handler failed");
    });
    await expect(rolledBack).rejects.toThrow("the handler failed");
    expect(await count(table)).toBe(0);
    for (const key of ["job", "done", "failed", "deferred"]) {
      expect(await verbs.look({ scope: table, key })).toBe(null);
      expect(await verbs.payload({ scope: table, key })).toBe(null);
    }
    expect(await verbs.machineState(table, "s")).toBe(null);
    expect(await verbs.once(`effect of ${table}`)).toBe(true);
  });

  it("is not aborted by an answer that says no", async () => {
    const { ledger } = suite();
    const table = await own();
    const stale = { scope: table, key: "k", attempt: 7 };
    await ledger.record({ scope: table, key: "k", fingerprint: "a" });
    await opened().database.transaction(async (tx, queryable) => {
      const verbs = ledger.within(queryable);
      expect(await verbs.complete([stale])).toEqual(["lost"]);
      expect(await verbs.fail([{ ...stale, reason: "x", retry: "never" }])).toEqual(["lost"]);
      expect(await verbs.defer(stale)).toBe("lost");
      expect(await verbs.saveSteps([{ ...stale, name: "a", state: "done" }])).toEqual(["lost"]);
      expect(await verbs.record([{ scope: table, key: "k", fingerprint: "b" }])).toMatchObject([
        { outcome: "conflict" },
      ]);
      expect(
        await verbs.claim({ scope: table, key: "none" }, { leaseMs: minute, worker: "w" }),
      ).toMatchObject({
        outcome: "missing",
      });
      await opened().run(tx, `insert into ${table} values ('still here')`);
    });
    expect(await count(table)).toBe(1);
  });

  it("ends with a completion, which undoes all of it where the claim is lost", async () => {
    const { ledger, verbs } = suite();
    const table = await own();
    // Where it travels with the commit it has no parameters: what SQL reads as its own must stay text.
    const claim = { scope: table, key: String.raw`it's \'; drop table "${table}"; -- $1 é`, attempt: 1 };
    await ledger.recordAndClaim(claim);
    const end = (attempt: number, row: string, result?: string): Promise<void> =>
      opened().database.transaction(async (tx, queryable) => {
        await opened().run(tx, `insert into ${table} values ('${row}')`);
        await ledger.within(queryable).completeLast({ ...claim, attempt, result });
      });
    await expect(end(2, "stale")).rejects.toMatchObject({ code: "claim_lost" });
    expect(await count(table)).toBe(0);
    expect(await verbs.look(claim)).toMatchObject({ state: "running" });
    const result = JSON.stringify("it's \\ done");
    await end(1, "good", result);
    expect(await count(table)).toBe(1);
    expect(await verbs.look(claim)).toMatchObject({ state: "done", result });
    // It was committed before, if only nobody heard of it.
    await expect(end(1, "again")).rejects.toMatchObject({ code: "transaction_aborted" });
    await expect(end(0, "late")).rejects.toMatchObject({ code: "claim_lost" });
    expect(await count(table)).toBe(1);
  });

  it("cannot lose a completion to a swallowed error: it rejects, and the task comes back", async () => {
    const { ledger, verbs, clock } = suite();
    const table = await own();
    await ledger.recordAndClaim({ scope: table, key: "k" });
    const claim = { scope: table, key: "k", attempt: 1 };
    const handler = opened().database.transaction(async (tx, queryable) => {
      await opened().run(tx, `insert into ${table} values ('x')`);
      await opened()
        .run(tx, `insert into ${table} values ('x')`)
        .then(undefined, () => "swallowed");
      await ledger.within(queryable).completeLast(claim);
    });
    await expect(handler).rejects.toMatchObject({ code: "transaction_aborted" });
    expect(await count(table)).toBe(0);
    expect(await verbs.look(claim)).toMatchObject({ state: "running", attempt: 1 });
    await clock.advance(minute + 1);
    expect(await claimOne(ledger, table, "k")).toMatchObject({ attempt: 2 });
  });
}
