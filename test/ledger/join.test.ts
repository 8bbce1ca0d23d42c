import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import { coalesce } from "../../src/ledger/coalesce.ts";
import { equalTasks, nameOf } from "../../src/ledger/join.ts";
import type { NewTask, Recorded } from "../../src/ledger/task.ts";
import { describeOnServer, freshLane } from "./support.ts";

const claimed: Recorded = { outcome: "claimed", attempt: 1 };
const task = (over: Partial<NewTask> = {}): NewTask => ({
  scope: "s",
  key: "k",
  body: Buffer.from("{}"),
  happenedAt: new Date(0),
  ...over,
});

/** Statements that the test answers itself, one after the other. */
function manual() {
  const batches: (readonly NewTask[])[] = [];
  const open: { resolve(answers: readonly Recorded[]): void; reject(error: unknown): void }[] = [];
  const flush = (tasks: readonly NewTask[]): Promise<readonly Recorded[]> => {
    batches.push(tasks);
    return new Promise((resolve, reject) => open.push({ resolve, reject }));
  };
  const record = coalesce(flush, { nameOf, joining: equalTasks });
  return {
    record,
    batches,
    /** Resolves when the statement has been sent that calls of this turn go into. */
    sent: () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve))),
    answer: (...answers: Recorded[]) => open.shift()?.resolve(answers),
    refuse: (error: unknown) => open.shift()?.reject(error),
  };
}

describe("a task that several callers record at once", () => {
  it("is sent once, and all but the first are told that they are duplicates", async () => {
    const { record, batches, sent, answer } = manual();
    // Each has read its input for itself; the body tells that it is the same.
    const answers = Promise.all(Array.from({ length: 1000 }, () => record(task({ input: {} }))));
    await sent();
    expect(batches).toEqual([[task({ input: {} })]]);
    answer(claimed);
    const duplicate = { outcome: "duplicate", state: "running" };
    expect(await answers).toEqual([claimed, ...Array.from({ length: 999 }, () => duplicate)]);
  });

  it("is sent once, also where its body is of another realm", async () => {
    const { record, batches, sent, answer } = manual();
    const body = () => runInNewContext("Uint8Array.of(123, 125)") as Uint8Array;
    const answers = Promise.all([task(), task({ body: body() }), task({ body: body() })].map(record));
    await sent();
    expect(batches).toEqual([[task()]]);
    answer(claimed);
    expect(await answers).toMatchObject([claimed, { outcome: "duplicate" }, { outcome: "duplicate" }]);
  });

  it("is not joined once it was sent: the ledger may have changed since it looked", async () => {
    const { record, batches, sent, answer } = manual();
    const first = record(task());
    await sent();
    const later = [record(task()), record(task())];
    answer(claimed);
    expect(await first).toEqual(claimed);
    await sent();
    expect(batches).toEqual([[task()], [task()]]);
    answer({ outcome: "duplicate", state: "done" });
    const done = { outcome: "duplicate", state: "done" };
    expect(await Promise.all(later)).toEqual([done, done]);
  });

  it.each([
    ["body", { body: Buffer.from("[]") }],
    ["fingerprint", { fingerprint: "other" }],
    ["time", { happenedAt: new Date(1) }],
    ["type", { type: "invoice.paid" }],
    ["reason to be ignored", { ignored: "nobody handles it" }],
  ])("is judged by the ledger where it comes with another %s", async (_, over) => {
    const { record, batches, sent, answer } = manual();
    const answers = Promise.all([task(), task(over), task(), task(over)].map(record));
    await sent();
    // Only the first of an identity can be joined; the others are sent as they are.
    expect(batches).toEqual([[task(), task(over), task(over)]]);
    const conflict: Recorded = { outcome: "conflict", state: "running" };
    answer(claimed, conflict, conflict);
    expect(await answers).toEqual([claimed, conflict, { outcome: "duplicate", state: "running" }, conflict]);
  });

  it("is not taken for another whose scope and key read the same", async () => {
    const { record, batches, sent, answer } = manual();
    const answers = Promise.all([
      record({ scope: "a b", key: "c" }),
      record({ scope: "a", key: "b c" }),
      record({ scope: "a b", key: "c" }),
    ]);
    await sent();
    expect(batches[0]).toHaveLength(2);
    answer(claimed, claimed);
    expect((await answers).map(({ outcome }) => outcome)).toEqual(["claimed", "claimed", "duplicate"]);
  });

  it("fails for all of them where the database is away, and is sent again afterwards", async () => {
    const { record, batches, sent, answer, refuse } = manual();
    const away = new OncewardError("database_unavailable", "away");
    const calls = Promise.allSettled([record(task()), record(task())]);
    await sent();
    refuse(away);
    for (const one of await calls) expect(one).toEqual({ status: "rejected", reason: away });
    const again = record(task());
    await sent();
    expect(batches).toHaveLength(2);
    answer(claimed);
    expect(await again).toEqual(claimed);
  });
});

describeOnServer("newest", "who joins another's task", (bench) => {
  it.each([
    ["new", {}, undefined],
    ["ignored", { ignored: "nobody handles it" }, undefined],
    ["one of a group", { serial: "group" }, undefined],
    ["known", {}, {}],
    ["known with other content", { fingerprint: "b" }, { fingerprint: "a" }],
  ] as const)("is told what the ledger itself would tell a moment later (%s)", async (_, over, before) => {
    const { ledger } = bench();
    for (const verb of ["record", "recordAndClaim"] as const) {
      const [joined, apart] = await Promise.all(
        ["joined", "apart"].map(async (how) => {
          const one = { scope: freshLane(), key: "k", ...over };
          if (before) await ledger.record({ scope: one.scope, key: one.key, ...before });
          if (how === "joined") return Promise.all([ledger[verb](one), ledger[verb](one)]);
          return [await ledger[verb](one), await ledger[verb](one)];
        }),
      );
      const plain = (answers: readonly Recorded[] = []) =>
        answers.map((one) => (one.outcome === "claimed" ? one.outcome : one));
      expect(plain(joined)).toEqual(plain(apart));
    }
  });
});
