import { expect, it } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import { defineMachine, type Moving } from "../../src/machine/machine.ts";
import { type Bench, describeOn, describeOnEach, fresh, listJob, type Queries } from "./support.ts";

/** An order that is paid and shipped; what its moves do is told to the test. */
function orders(bench: Bench, run?: (moving: Moving<{ amount: number } | undefined, Queries>) => unknown) {
  return defineMachine(bench.engine, fresh("order"), {
    initial: "new",
    states: { new: {}, paid: {}, shipped: {}, refunded: {} },
    moves: {
      pay: {
        from: ["new"],
        to: "paid",
        run: (moving: Moving<{ amount: number } | undefined, Queries>) => run?.(moving),
      },
      ship: { from: ["paid"], to: "shipped" },
      refund: { from: ["paid", "shipped"], to: "refunded" },
    },
  });
}

describeOnEach("a machine", (bench) => {
  it("moves a subject from the states that allow it, and refuses as a value elsewhere", async () => {
    const order = orders(bench());
    expect(await order.state("o1")).toEqual({ state: "new", version: 0, since: null, timers: [] });
    expect(await order.move("o1", "ship")).toEqual({ outcome: "refused", state: "new", version: 0 });
    expect(await order.move("o1", "pay")).toEqual({
      outcome: "moved",
      from: "new",
      state: "paid",
      version: 1,
    });
    expect(await order.move("o1", "pay")).toEqual({ outcome: "refused", state: "paid", version: 1 });
    expect(await order.move("o1", "ship")).toMatchObject({ outcome: "moved", from: "paid", version: 2 });
    expect(await order.state("o1")).toMatchObject({
      state: "shipped",
      version: 2,
      since: expect.any(Date) as Date,
    });
    expect(await order.state("o2")).toMatchObject({ state: "new", version: 0 });
  });

  it("leaves no trace of a subject whose only moves were refused", async () => {
    const order = orders(bench());
    await order.move("o1", "ship");
    expect(await bench().rows("select from onceward.machine where name = $1", [order.name])).toHaveLength(0);
  });

  it("keeps the history of a subject, and what brought each move about", async () => {
    const order = orders(bench());
    await order.move("o1", "pay", { cause: { scope: "stripe", key: "evt_1" } });
    await order.move("o1", "pay", { cause: { scope: "stripe", key: "evt_2" } });
    await order.move("o1", "refund");
    expect(await order.history("o1")).toEqual([
      {
        version: 1,
        move: "pay",
        from: "new",
        to: "paid",
        at: expect.any(Date) as Date,
        cause: "stripe evt_1",
      },
      { version: 2, move: "refund", from: "paid", to: "refunded", at: expect.any(Date) as Date, cause: null },
    ]);
    expect(await order.history("o2")).toEqual([]);
  });

  it("moves only while the subject is at the version that the caller knows", async () => {
    const order = orders(bench());
    expect(await order.move("o1", "pay", { version: 1 })).toMatchObject({ outcome: "refused", version: 0 });
    expect(await order.move("o1", "pay", { version: 0 })).toMatchObject({ outcome: "moved", version: 1 });
    expect(await order.move("o1", "ship", { version: 0 })).toMatchObject({ outcome: "refused", version: 1 });
  });

  it("commits the rows, jobs and effect keys of a move with it", async () => {
    const { job, inputs } = listJob<{ order: string }>(bench().engine, fresh("mail"));
    const table = fresh("payment");
    const seen: unknown[] = [];
    const order = orders(
      bench(),
      async ({ tx, enqueue, once, subject, from, state, version, data, after }) => {
        seen.push({ from, state, version, data, after });
        await tx.query(`insert into ${table} values ($1)`, [String(data?.amount)]);
        await enqueue(job, { order: subject });
        expect(await once(`credit:${table}`)).toBe(true);
      },
    );
    await bench().rows(`create table ${table} (amount text)`);
    await bench().engine.start();
    await order.move("o1", "pay", { data: { amount: 5 }, cause: { scope: "stripe", key: "evt_1" } });
    await order.move("o1", "pay", { data: { amount: 6 } });
    expect(seen).toEqual([{ from: "new", state: "paid", version: 1, data: { amount: 5 }, after: undefined }]);
    expect(await bench().rows(`select amount from ${table}`)).toEqual([{ amount: "5" }]);
    await bench().settle();
    expect(inputs).toEqual([{ order: "o1" }]);
    expect(await bench().rows("select cause from onceward.task where scope = $1", [job.scope])).toEqual([
      { cause: "stripe evt_1" },
    ]);
    expect(
      await bench().rows("select cause from onceward.effect where key = $1", [`credit:${table}`]),
    ).toEqual([{ cause: "stripe evt_1" }]);
  });

  it("does not move where its effects fail, and moves at the next try", async () => {
    const { job } = listJob<string>(bench().engine, fresh("mail"));
    const failures = [new Error("the mail has no address")];
    const order = orders(bench(), async ({ enqueue, once }) => {
      expect(await once("credit")).toBe(true);
      await enqueue(job, "o1", { key: "o1" });
      const failure = failures.shift();
      if (failure) throw failure;
    });
    await expect(order.move("o1", "pay")).rejects.toThrow("the mail has no address");
    expect(await order.state("o1")).toMatchObject({ state: "new", version: 0 });
    expect(await bench().tasks(job.scope)).toEqual({});
    expect(await order.move("o1", "pay")).toMatchObject({ outcome: "moved", version: 1 });
    expect(await bench().tasks(job.scope)).toEqual({ o1: "waiting" });
    await bench().rows("delete from onceward.effect where key = 'credit'");
  });

  it("moves inside the caller's transaction: both are kept, or neither is", async () => {
    const order = orders(bench());
    await bench().engine.ready();
    const undone = bench().database.transaction(async (tx) => {
      expect(await order.move("o1", "pay", { tx })).toMatchObject({ outcome: "moved" });
      expect(await order.state("o1", { tx })).toMatchObject({ state: "paid" });
      throw new Error("the handler failed");
    });
    await expect(undone).rejects.toThrow("the handler failed");
    expect(await order.history("o1")).toEqual([]);
    await bench().database.transaction(async (tx) => {
      await order.move("o1", "pay", { tx });
      await order.move("o1", "ship", { tx });
    });
    expect((await order.history("o1")).map(({ move }) => move)).toEqual(["pay", "ship"]);
  });

  it("lets nobody commit a move whose effects failed, even if he swallows the error", async () => {
    const order = orders(bench(), () => {
      throw new Error("the mail has no address");
    });
    await bench().engine.ready();
    const committed = bench().database.transaction(async (tx) => {
      await expect(order.move("o1", "pay", { tx })).rejects.toThrow("the mail has no address");
    });
    await expect(committed).rejects.toMatchObject({ code: "transaction_aborted" });
    expect(await order.state("o1")).toMatchObject({ state: "new", version: 0 });
  });

  it("refuses what is enqueued after the move has ended", async () => {
    const { job } = listJob<string>(bench().engine, fresh("mail"));
    let late: (() => Promise<unknown>) | undefined;
    const order = orders(bench(), ({ enqueue }) => {
      late = () => enqueue(job, "o1");
    });
    await order.move("o1", "pay");
    await expect(late?.()).rejects.toThrow("await it");
    expect(await bench().tasks(job.scope)).toEqual({});
  });

  it("takes subjects and causes of any other text", async () => {
    const order = orders(bench());
    const subject = `o'1 "x" \\ {} ,null 🎉 ${"y".repeat(400)}`;
    expect(await order.move(subject, "pay", { cause: { scope: "a", key: subject } })).toMatchObject({
      outcome: "moved",
    });
    expect(await order.history(subject)).toMatchObject([{ cause: `a ${subject}` }]);
  });
});

describeOn("newest", "a machine with several callers", (bench) => {
  it.each([
    ["", "empty"],
    ["x".repeat(513), "too long"],
    ["a\0b", "with a NUL"],
    ["a\uD800", "with a lone surrogate"],
  ])("refuses a subject that could not be kept (%#)", async (subject) => {
    const order = orders(bench());
    await expect(order.move(subject, "pay")).rejects.toMatchObject({ code: "key_invalid" });
    await expect(order.state(subject)).rejects.toMatchObject({ code: "key_invalid" });
  });

  it("lets one of many callers move and tells the others the new state", async () => {
    const order = orders(bench());
    await bench().engine.ready();
    const answers = await Promise.all(Array.from({ length: 20 }, () => order.move("o1", "pay")));
    expect(answers.filter(({ outcome }) => outcome === "moved")).toHaveLength(1);
    const others = answers.filter(({ outcome }) => outcome !== "moved");
    for (const other of others) expect(other).toEqual({ outcome: "refused", state: "paid", version: 1 });
    expect(await order.history("o1")).toHaveLength(1);
  });

  it("lets the second caller move where the first one rolls back", async () => {
    const order = orders(bench());
    await bench().engine.ready();
    let second: Promise<unknown> | undefined;
    const first = bench().database.transaction(async (tx) => {
      await order.move("o1", "pay", { tx });
      second = order.move("o1", "pay");
      throw new Error("changed my mind");
    });
    await expect(first).rejects.toThrow("changed my mind");
    expect(await second).toEqual({ outcome: "moved", from: "new", state: "paid", version: 1 });
  });
});

describeOn("newest", "the definition of a machine", (bench) => {
  const good = {
    initial: "new",
    states: { new: {}, open: {} },
    moves: { open: { from: ["new"], to: "open" } },
  } as const;

  it.each<[string, unknown, RegExp]>([
    ["an unknown initial state", { ...good, initial: "old" }, /"old" is none of its states/],
    [
      "a move from an unknown state",
      { ...good, moves: { open: { from: ["old"], to: "open" } } },
      /"old" is none/,
    ],
    [
      "a move to an unknown state",
      { ...good, moves: { open: { from: ["new"], to: "toString" } } },
      /"toString" is none/,
    ],
    ["a move from nowhere", { ...good, moves: { open: { from: [], to: "open" } } }, /from no state/],
    [
      "a restart between two states",
      { ...good, moves: { open: { from: ["new"], to: "open", restart: true } } },
      /to itself/,
    ],
    [
      "timers of the initial state",
      { ...good, states: { new: { after: { "1 day": "open" } }, open: {} } },
      /nobody enters/,
    ],
    [
      "a timer with an unknown move",
      { ...good, states: { new: {}, open: { after: { "1 day": "close" } } } },
      /none of its moves/,
    ],
    [
      "a timer whose move is not allowed there",
      { ...good, states: { new: {}, open: { after: { "1 day": "open" } } } },
      /no move from open/,
    ],
    [
      "a timer without duration",
      {
        ...good,
        states: { new: {}, open: { after: { "0 days": "again" } } },
        moves: { ...good.moves, again: { from: ["open"], to: "open" } },
      },
      /above 0/,
    ],
    [
      "a duration that is none",
      { ...good, states: { new: {}, open: { after: { soon: "open" } } } },
      /duration/,
    ],
    ["a name with a space", { ...good, states: { ...good.states, "half open": {} } }, /no name/],
  ])("is refused with %s", (_, definition, message) => {
    const define = () => defineMachine(bench().engine, fresh("order"), definition as typeof good);
    expect(define).toThrow(OncewardError);
    expect(define).toThrow(message);
  });

  it("is refused once the engine runs, and under a name that is taken", async () => {
    defineMachine(bench().engine, "order", good);
    expect(() => defineMachine(bench().engine, "order", good)).toThrow(/machine\/order/);
    await bench().engine.ready();
    expect(() => defineMachine(bench().engine, "invoice", good)).toThrow(/registered after/);
  });

  it("names a move that it does not have", async () => {
    const order = defineMachine(bench().engine, "order", good);
    await expect(order.move("o1", "close" as "open")).rejects.toMatchObject({ code: "handler_missing" });
  });
});
