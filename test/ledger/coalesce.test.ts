import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, it } from "vitest";
import { dryRunnable, dryTransaction } from "../../src/database/dry-run.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { OncewardError } from "../../src/errors.ts";
import { takingAlong } from "../../src/ledger/along.ts";
import { coalesce } from "../../src/ledger/coalesce.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { createPglite } from "../support/pglite.ts";
import { needs, startPostgres } from "../support/postgres.ts";
import { watched } from "../worker/support.ts";
import { describeOnServer, freshLane } from "./support.ts";

/** A flush that the test ends itself, batch by batch. */
function manual(): {
  flush: (items: readonly string[]) => Promise<readonly string[]>;
  batches: (readonly string[])[];
  end(error?: unknown): void;
  begun(n: number): Promise<void>;
} {
  const batches: (readonly string[])[] = [];
  const open: {
    items: readonly string[];
    resolve: (a: readonly string[]) => void;
    reject: (e: unknown) => void;
  }[] = [];
  let tell = (): void => {};
  return {
    batches,
    flush: (items) => {
      batches.push(items);
      tell();
      return new Promise((resolve, reject) => open.push({ items, resolve, reject }));
    },
    end(error) {
      const one = open.shift();
      if (error === undefined) one?.resolve(one.items.map((item) => item.toUpperCase()));
      else one?.reject(error);
    },
    async begun(n) {
      while (batches.length < n) await new Promise<void>((resolve) => (tell = resolve));
    },
  };
}

describe("concurrent calls", () => {
  it("that start together share one flush, each with its own answer", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush);
    const answers = Promise.all(["a", "b", "c"].map(call));
    await begun(1);
    end();
    expect(await answers).toEqual(["A", "B", "C"]);
    expect(batches).toEqual([["a", "b", "c"]]);
  });

  it("that arrive during a flush go out together with the next, and no two flushes overlap", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush);
    const first = call("a");
    await begun(1);
    const later = Promise.all(["b", "c", "d"].map(call));
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toEqual([["a"]]); // They wait for it.
    end();
    expect(await first).toBe("A");
    await begun(2);
    end();
    expect(await later).toEqual(["B", "C", "D"]);
    expect(batches).toEqual([["a"], ["b", "c", "d"]]);
  });

  it("do not wait for a flush where enough of them wait and another one is allowed", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush, { flushes: 2 });
    const many = (name: string, count: number): string[] => Array.from({ length: count }, () => name);
    const calls = ["a", ...many("b", 15)].map(call);
    await begun(1);
    expect(batches).toHaveLength(1);
    calls.push(...many("c", 15).map(call));
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toHaveLength(1); // Too few to be worth a statement of their own.
    calls.push(call("c"));
    await begun(2);
    calls.push(...many("d", 32).map(call));
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toHaveLength(2); // No more than two at once.
    end();
    await begun(3);
    end();
    end();
    const answers = await Promise.all(calls);
    expect(batches.map((batch) => batch.length)).toEqual([16, 16, 32]);
    expect(answers.join("")).toBe(`A${"B".repeat(15)}${"C".repeat(16)}${"D".repeat(32)}`);
  });

  it("go out in halves where they are many, so that one is under way while the other is run", async () => {
    const sizesOf = async (flushes: number, count: number, awaited = true): Promise<number[]> => {
      const { flush, batches, end, begun } = manual();
      const call = coalesce(flush, { flushes, awaited });
      const calls = Array.from({ length: count }, () => call("a"));
      await begun(Math.min(flushes, awaited && count > 32 ? 2 : 1));
      for (const _ of batches) end();
      await Promise.all(calls);
      return batches.map((batch) => batch.length);
    };
    expect(await sizesOf(2, 64)).toEqual([32, 32]);
    expect(await sizesOf(2, 32)).toEqual([32]);
    expect(await sizesOf(2, 64, false)).toEqual([64]); // Nobody goes on with the answers.
    expect(await sizesOf(1, 64)).toEqual([64]); // One session for everybody: nothing would be under way meanwhile.
  });

  it("take turns with the database where their answers are only passed on", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush, { flushes: 2, awaited: true, passedOn: true });
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const many = (count: number): Promise<string>[] => Array.from({ length: count }, () => call("a"));
    const calls = many(23);
    expect(batches).toHaveLength(0);
    calls.push(call("a"));
    expect(batches.map((batch) => batch.length)).toEqual([24]); // Before the turn ends.
    calls.push(...many(63));
    await turn();
    expect(batches).toHaveLength(1); // They wait, though another flush is allowed,
    calls.push(call("a"));
    await begun(2); // until there are callers enough for two.
    end();
    await begun(3);
    end();
    end();
    await Promise.all(calls);
    expect(batches.map((batch) => batch.length)).toEqual([24, 32, 32]);
  });

  it("go out alone when they come alone", async () => {
    const batches: (readonly string[])[] = [];
    const call = coalesce(async (items: readonly string[]) => {
      batches.push(items);
      return items;
    });
    for (const item of ["a", "b", "c"]) expect(await call(item)).toBe(item);
    expect(batches).toEqual([["a"], ["b"], ["c"]]);
  });

  it("go out in bounded batches, in the order they came", async () => {
    const sizes: number[] = [];
    const numbers = Array.from({ length: 250 }, (_, i) => i);
    const run = (options?: { max: number }): Promise<number[]> => {
      sizes.length = 0;
      const call = coalesce(async (items: readonly number[]) => {
        sizes.push(items.length);
        return items.map((item) => item * 2);
      }, options);
      return Promise.all(numbers.map(call));
    };
    expect(await run()).toEqual(numbers.map((n) => n * 2));
    expect(sizes).toEqual([100, 100, 50]);
    await run({ max: 120 });
    expect(sizes).toEqual([120, 120, 10]);
  });

  it("that say the same are answered in turns, so that others get theirs in between", async () => {
    const nameOf = (item: string): string => item;
    const joining = {
      isEqual: (a: string, b: string) => a === b,
      asJoined: (answer: string) => `${answer} again`,
    };
    for (const error of [undefined, new OncewardError("database_unavailable", "gone")]) {
      const { flush, batches, end, begun } = manual();
      const call = coalesce(flush, { nameOf, joining });
      let told = 0;
      const calls = Array.from({ length: 1_000 }, () =>
        call("storm").then(
          (answer) => (told++, answer),
          (thrown: unknown) => (told++, thrown),
        ),
      );
      await begun(1);
      const other = call("other").then(() => told);
      end(error);
      await begun(2);
      end();
      expect(await other).toBeLessThan(500);
      const answers = await Promise.all(calls);
      expect(batches).toEqual([["storm"], ["other"]]);
      expect(new Set<unknown>(answers)).toEqual(new Set<unknown>(error ? [error] : ["STORM", "STORM again"]));
    }
  });

  it("are not failed by one bad row among them: each is tried for itself", async () => {
    const batches: (readonly string[])[] = [];
    const call = coalesce(async (items: readonly string[]) => {
      batches.push(items);
      if (items.includes("bad")) throw new Error("violates a constraint");
      return items;
    });
    const settled = await Promise.allSettled(["a", "bad", "b"].map(call));
    expect(settled).toMatchObject([
      { value: "a" },
      { reason: { message: "violates a constraint" } },
      { value: "b" },
    ]);
    expect(batches).toEqual([["a", "bad", "b"], ["a"], ["bad"], ["b"]]);
    expect(await call("again")).toBe("again");
  });

  it("do not wait for the end of a flush that takes long, but no more are under way than allowed", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush, { flushes: 2 });
    const calls = [call("a")];
    await begun(1);
    calls.push(call("b"));
    await begun(2);
    calls.push(call("c"), call("d"));
    await new Promise((resolve) => setTimeout(resolve, 150)); // By then both of them have taken long.
    expect(batches).toEqual([["a"], ["b"]]);
    end();
    await begun(3);
    end();
    end();
    expect(await Promise.all(calls)).toEqual(["A", "B", "C", "D"]);
    expect(batches[2]).toEqual(["c", "d"]);
  });

  it("that have the name of one under way wait for its end, and hold up nobody meanwhile", async () => {
    const { flush, batches, end, begun } = manual();
    const call = coalesce(flush, { flushes: 3, nameOf: (item) => item.slice(0, 1) });
    const calls = [call("a1")];
    await begun(1);
    calls.push(...Array.from({ length: 40 }, (_, i) => call(`a${i + 2}`)), call("b"));
    await begun(2);
    expect(batches).toEqual([["a1"], ["b"]]);
    calls.push(call("c"));
    await begun(3);
    expect(batches[2]).toEqual(["c"]);
    end();
    await begun(4);
    for (const _ of batches) end();
    expect(await Promise.all(calls)).toHaveLength(43);
    expect(batches[3]).toHaveLength(40);
  });

  it("that failed together go each alone, and one that takes long then holds up none of the others", async () => {
    let endSlow = (): void => {};
    const batches: (readonly string[])[] = [];
    const call = coalesce(
      async (items: readonly string[]) => {
        batches.push(items);
        if (items.length > 1 && items.includes("slow")) throw new Error("waited for a lock");
        if (items[0] === "slow") await new Promise<void>((resolve) => (endSlow = resolve));
        return items;
      },
      { flushes: 2, nameOf: (item) => item },
    );
    const slow = call("slow");
    expect(await Promise.all(["a", "b", "c"].map(call))).toEqual(["a", "b", "c"]);
    expect(await call("d")).toBe("d");
    endSlow();
    expect(await slow).toBe("slow");
    expect(batches).toEqual([["slow", "a", "b", "c"], ["slow"], ["a"], ["b"], ["c"], ["d"]]);
  });

  it("are all rejected when the database is away, once, and go on when it is back", async () => {
    let away = true;
    let flushes = 0;
    const error = new OncewardError("database_unavailable", "away");
    const call = coalesce(async (items: readonly string[]) => {
      flushes++;
      if (away) throw error;
      return items;
    });
    const settled = await Promise.allSettled(["a", "b", "c"].map(call));
    for (const one of settled) expect(one).toEqual({ status: "rejected", reason: error });
    expect(flushes).toBe(1); // Not once more for each of them: it is away for all.
    away = false;
    expect(await call("d")).toBe("d");
  });

  it("survive a flush that throws before it returns a promise", async () => {
    let broken = true;
    const call = coalesce((items: readonly string[]) => {
      if (broken) throw new OncewardError("database_unavailable", "thrown");
      return Promise.resolve(items);
    });
    await expect(call("a")).rejects.toMatchObject({ code: "database_unavailable" });
    broken = false;
    expect(await call("b")).toBe("b");
  });
});

describe("calls of two kinds that come together", () => {
  /** Letters, which take numbers along; what was sent, in order. */
  function twoKinds(fail: (sent: string) => unknown = () => undefined) {
    const sent: string[] = [];
    const send = async <T>(text: string, answers: T): Promise<T> => {
      sent.push(text);
      const error = fail(text);
      if (error) throw error;
      return answers;
    };
    const numbers = coalesce(
      (items: readonly number[]) =>
        send(
          items.join(""),
          items.map((one) => -one),
        ),
      { yields: true },
    );
    const flush = (items: readonly string[]): Promise<readonly string[]> =>
      send(
        items.join(""),
        items.map((one) => one.toUpperCase()),
      );
    const letters = coalesce(
      takingAlong(flush, {
        others: numbers,
        mayGoAlong: (number: number) => number < 8,
        together: (others, own) =>
          send([...others, ...own].join(""), {
            others: others.map((one) => -one),
            own: own.map((one) => one.toUpperCase()),
          }),
      }),
    );
    return { sent, numbers, letters };
  }

  it("share a flush, each with its own answer", async () => {
    const { sent, numbers, letters } = twoKinds();
    expect(await Promise.all([letters("a"), numbers(1), letters("b"), numbers(2)])).toEqual([
      "A",
      -1,
      "B",
      -2,
    ]);
    expect(sent).toEqual(["12ab"]);
    expect(await Promise.all([numbers(3), letters("c")])).toEqual([-3, "C"]);
    expect(await letters("d")).toBe("D");
    expect(await numbers(4)).toBe(-4);
    expect(sent.slice(1)).toEqual(["3c", "d", "4"]);
  });

  it("leave those for themselves who may not go along", async () => {
    const { sent, numbers, letters } = twoKinds();
    expect(await Promise.all([letters("a"), numbers(9), numbers(1)])).toEqual(["A", -9, -1]);
    expect(sent).toEqual(["1a", "9"]);
  });

  it("are not failed by each other: each kind is tried for itself, and along with nobody any more", async () => {
    for (const bad of ["1", "a"]) {
      const { sent, numbers, letters } = twoKinds((text) => text.includes(bad) && new Error("refused"));
      const settled = await Promise.allSettled([letters("a"), letters("b"), numbers(1), numbers(2)]);
      const expected = [
        ["A", "a"],
        ["B", "b"],
        [-1, "1"],
        [-2, "2"],
      ].map(([value, name]) => (name === bad ? { reason: { message: "refused" } } : { value }));
      expect(settled).toMatchObject(expected);
      expect(sent.filter((text) => /\d[a-z]/.test(text))).toEqual(["12ab"]);
    }
  });

  it("go on by themselves where the database was away for the others", async () => {
    const away = new OncewardError("database_unavailable", "away");
    let isAway = true;
    const { sent, numbers, letters } = twoKinds(() => {
      const error = isAway && away;
      isAway = false;
      return error;
    });
    const settled = await Promise.allSettled([letters("a"), numbers(1)]);
    expect(settled).toMatchObject([{ reason: away }, { value: -1 }]);
    expect(sent).toEqual(["1a", "1"]);
  });
});

describe("the async context of a caller", () => {
  it("is not that of the flush, nor of those after it", async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const call = coalesce(async (items: readonly string[]) => {
      seen.push(context.getStore());
      return items;
    });
    const after = await context.run("a request", async () => {
      const first = call("a");
      await new Promise((resolve) => setImmediate(resolve));
      await Promise.all([first, call("b")]);
      return context.getStore();
    });
    expect(seen).toEqual([undefined, undefined]);
    expect(after).toBe("a request");
  });
});

describe("a ledger on one session for everybody", () => {
  it("refuses what comes from inside the open transaction, and that alone, also while others wait for its end", async () => {
    const db = await createPglite();
    const database = pgliteDatabase(db);
    await migrate(database);
    const ledger = new Ledger(database);
    const elsewhere = AsyncLocalStorage.snapshot();
    const nested = { code: "database_nested" };
    let others: Promise<unknown>[] = [];
    await database.transaction(async () => {
      await expect(ledger.record({ scope: "s", key: "alone" })).rejects.toMatchObject(nested);
      const together = ledger.record({ scope: "s", key: "together" });
      others = elsewhere(() => [ledger.record({ scope: "s", key: "a" })]);
      await expect(together).rejects.toMatchObject(nested);
      // By now the flush of the other one waits for this transaction.
      await new Promise((resolve) => setTimeout(resolve, 50));
      others.push(elsewhere(() => ledger.record({ scope: "s", key: "b" })));
      await expect(ledger.record({ scope: "s", key: "behind" })).rejects.toMatchObject(nested);
    });
    expect(await Promise.all(others)).toEqual([{ outcome: "recorded" }, { outcome: "recorded" }]);
    expect(await ledger.record({ scope: "s", key: "behind" })).toEqual({ outcome: "recorded" });
    await db.close();
  });
});

describeOnServer("newest", "a ledger under many callers", (bench) => {
  it("needs a few statements for hundreds of calls", async () => {
    const { database } = bench();
    let statements = 0;
    const counted = {
      ...database,
      query: (...args: Parameters<typeof database.query>) => {
        statements++;
        return database.query(...args);
      },
    };
    const ledger = new Ledger(counted);
    const scope = freshLane();
    const keys = Array.from({ length: 300 }, (_, i) => `${i}`);
    const recorded = await Promise.all(keys.map((key) => ledger.recordAndClaim({ scope, key, body: key })));
    expect(recorded).toEqual(keys.map(() => ({ outcome: "claimed", attempt: 1 })));
    expect(statements).toBeLessThanOrEqual(6);
    statements = 0;
    const done = await Promise.all(
      keys.map((key) => ledger.complete({ scope, key, attempt: 1, result: key })),
    );
    expect(done).toEqual(keys.map(() => "done"));
    expect(statements).toBeLessThanOrEqual(4);
    for (const key of ["0", "150", "299"])
      expect(await ledger.verbs.look({ scope, key })).toMatchObject({ result: key });
  });

  it("answers each caller for itself: new, known, in conflict, lost", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    await ledger.record({ scope, key: "known", fingerprint: "a" });
    const answers = await Promise.all([
      ledger.record({ scope, key: "new" }),
      ledger.record({ scope, key: "known", fingerprint: "b" }),
      ledger.record({ scope, key: "known", fingerprint: "a" }),
      ledger.complete({ scope, key: "known", attempt: 9 }),
    ]);
    expect(answers.map((one) => (typeof one === "string" ? one : one.outcome))).toEqual([
      "recorded",
      "conflict",
      "duplicate",
      "lost",
    ]);
  });

  it("completes and records in one statement, but for tasks of a group", async () => {
    const { database } = bench();
    const watch = watched(database);
    const ledger = new Ledger(watch.database);
    const scope = freshLane();
    await ledger.record({ scope, key: "grouped", serial: "g" });
    await ledger.verbs.claim({ scope, key: "grouped" }, { leaseMs: 60_000, worker: "w" });
    for (const key of ["a", "b"]) await ledger.recordAndClaim({ scope, key });
    const claimed = { outcome: "claimed", attempt: 1 };
    const complete = (key: string, serial?: string) =>
      ledger.complete({ scope, key, attempt: 1, result: `"${key}"`, serial });
    let before = watch.sent.length;
    expect(await Promise.all([complete("a"), ledger.recordAndClaim({ scope, key: "c", body: "3" })])).toEqual(
      ["done", claimed],
    );
    expect(watch.sent.slice(before)).toEqual(["complete_and_record_call"]);
    expect(await ledger.verbs.look({ scope, key: "a" })).toMatchObject({ state: "done", result: '"a"' });
    expect(await ledger.verbs.look({ scope, key: "c" })).toMatchObject({ state: "running" });
    expect(await ledger.verbs.payload({ scope, key: "c" })).toBe("3");

    before = watch.sent.length;
    expect(
      await Promise.all([complete("grouped", "g"), complete("b"), ledger.record({ scope, key: "d" })]),
    ).toEqual(["done", "done", { outcome: "recorded" }]);
    expect(watch.sent.slice(before).toSorted()).toEqual(["complete_and_record_call", "complete_many"]);
  });

  it("has nothing of others in the statements of a dry run", async () => {
    const { database } = bench();
    const ledger = new Ledger(dryRunnable(database));
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "a" });
    const outside = AsyncLocalStorage.snapshot();
    const answers = await dryTransaction(database, () =>
      Promise.all([
        outside(() => ledger.complete({ scope, key: "a", attempt: 1 })),
        ledger.record({ scope, key: "dry" }),
      ]),
    );
    expect(answers).toEqual(["done", { outcome: "recorded" }]);
    expect(await ledger.verbs.look({ scope, key: "a" })).toMatchObject({ state: "done" });
    expect(await ledger.verbs.look({ scope, key: "dry" })).toBe(null);
  });

  it("completes what is done also where what was recorded with it is refused", async () => {
    const { ledger, database } = bench();
    const scope = freshLane();
    await database.query("insert into onceward.payload (scope, key, body) values ($1::text, 'orphan', 'x')", [
      scope,
    ]);
    await ledger.recordAndClaim({ scope, key: "a" });
    const settled = await Promise.allSettled([
      ledger.complete({ scope, key: "a", attempt: 1 }),
      ledger.record({ scope, key: "orphan" }),
      ledger.record({ scope, key: "b" }),
    ]);
    expect(settled).toMatchObject([
      { value: "done" },
      { status: "rejected" },
      { value: { outcome: "recorded" } },
    ]);
    expect(await ledger.verbs.look({ scope, key: "a" })).toMatchObject({ state: "done" });
  });

  it("fails only the caller whose row the database refuses", async () => {
    const { ledger, database } = bench();
    const scope = freshLane();
    // Somebody deleted a task by hand and left its payload.
    await database.query("insert into onceward.payload (scope, key, body) values ($1::text, 'orphan', 'x')", [
      scope,
    ]);
    const [orphan, a, b] = await Promise.allSettled([
      ledger.record({ scope, key: "orphan" }),
      ledger.record({ scope, key: "a" }),
      ledger.record({ scope, key: "b" }),
    ]);
    expect([orphan?.status, a?.status, b?.status]).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(await ledger.verbs.look({ scope, key: "orphan" })).toBe(null);
  });
});

describe("a ledger whose database goes away", () => {
  it("rejects everybody with a typed error, and goes on when it is back", async (context) => {
    await needs.postgres(context);
    const server = await startPostgres({ settings: { fsync: "on" } });
    const database = pgDatabase(server.url);
    try {
      await migrate(database);
      const ledger = new Ledger(database);
      await ledger.record({ scope: "s", key: "before" });
      await server.kill();
      const away = await Promise.allSettled([
        ledger.record({ scope: "s", key: "a" }),
        ledger.recordAndClaim({ scope: "s", key: "b" }),
        ledger.complete({ scope: "s", key: "c", attempt: 1 }),
        ledger.fail({ scope: "s", key: "c", attempt: 1, reason: "x", retry: "never" }),
        ledger.renew({ scope: "s", key: "c", attempt: 1 }),
        ledger.saveStep({ scope: "s", key: "c", attempt: 1, name: "n", state: "done" }),
      ]);
      for (const one of away) {
        expect(one).toMatchObject({
          status: "rejected",
          reason: { code: "database_unavailable", status: 503 },
        });
      }
      await server.restart();
      expect(await ledger.record({ scope: "s", key: "before" })).toMatchObject({ outcome: "duplicate" });
      expect(await ledger.record({ scope: "s", key: "a" })).toEqual({ outcome: "recorded" });
    } finally {
      await database.close();
      await server.stop();
    }
  });
});
