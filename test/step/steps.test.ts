import { expect, it, vi } from "vitest";
import { Fatal, OncewardError } from "../../src/errors.ts";
import { stepKey } from "../../src/step/key.ts";
import { describeSteps, scope } from "./support.ts";

describeSteps("steps", (bench) => {
  it("go on after a crash from the last finished one, with the results of the finished", async () => {
    const ran: string[] = [];
    await bench().dies("resume", async (step, die) => {
      ran.push(await step("a", () => "A"));
      ran.push(await step("b", () => "B"));
      await step("c", () => die());
    });
    const result = await bench().attempt("resume", async (step) => {
      const a = await step("a", () => "another A");
      const b = await step("b", () => "another B");
      return [a, b, await step("c", () => "C")];
    });
    expect(ran).toEqual(["A", "B"]);
    expect(result).toEqual({ outcome: "done", result: '["A","B","C"]' });
    expect(await bench().steps("resume")).toMatchObject([
      { name: "a", state: "done", attempt: 1 },
      { name: "b", state: "done", attempt: 1 },
      { name: "c", state: "done", attempt: 2 },
    ]);
  });

  it("give the same value in the attempt that made it as in later ones", async () => {
    class Money {
      readonly cents = 5;
      euros(): number {
        return this.cents / 100;
      }
    }
    const seen: unknown[] = [];
    await bench().dies("same", async (step, die) => {
      seen.push(await step("money", () => new Money()));
      await die();
    });
    await bench().attempt("same", async (step) => void seen.push(await step("money", () => new Money())));
    expect(seen).toEqual([{ cents: 5 }, { cents: 5 }]);
    expect(Object.getPrototypeOf(seen[0])).toBe(Object.prototype);
  });

  it("keep large values", async () => {
    const large = "é".repeat(3_000_000);
    await bench().dies("large", async (step, die) => {
      await step("large", () => ({ large }));
      await die();
    });
    const ran = vi.fn<() => { large: string }>();
    await bench().attempt("large", async (step) => {
      expect((await step("large", ran)).large).toBe(large);
    });
    expect(ran).not.toHaveBeenCalled();
  });

  it("run side by side, and each is kept", async () => {
    const calls: string[] = [];
    const fan = async (
      step: Parameters<Parameters<ReturnType<typeof bench>["attempt"]>[1]>[0],
      fails: boolean,
    ) =>
      Promise.all(
        ["a", "b", "c"].map((name) =>
          step(name, async () => {
            calls.push(name);
            await new Promise(setImmediate);
            if (fails && name === "b") throw new Error("b is down");
            return name.toUpperCase();
          }),
        ),
      );
    expect(await bench().attempt("fan", (step) => fan(step, true))).toMatchObject({ outcome: "failed" });
    expect((await bench().steps("fan")).map((step) => step.name)).toEqual(["a", "c"]);
    expect(await bench().attempt("fan", (step) => fan(step, false))).toEqual({
      outcome: "done",
      result: '["A","B","C"]',
    });
    expect(calls.toSorted()).toEqual(["a", "b", "b", "c"]);
  });

  it("that are in flight when the function fails are finished and saved before the attempt ends", async () => {
    let finish!: () => void;
    const slow = new Promise<void>((resolve) => (finish = resolve));
    const attempt = bench().attempt("inflight", async (step) => {
      const late = step("late", () => slow.then(() => "sent"));
      setImmediate(finish);
      await Promise.all([late, step("bad", () => Promise.reject(new Error("no")))]);
    });
    expect(await attempt).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(await bench().steps("inflight")).toMatchObject([{ name: "late", state: "done", value: '"sent"' }]);
  });

  it("that the function does not await are finished and saved as well", async () => {
    await bench().attempt("floating", (step) => {
      void step("floating", async () => {
        await new Promise(setImmediate);
        return 1;
      });
    });
    expect(await bench().steps("floating")).toMatchObject([{ name: "floating", state: "done", value: "1" }]);
  });

  it("fail their attempt and run again in the next one", async () => {
    let calls = 0;
    const job = async (step: { <T>(name: string, fn: () => T): Promise<T> }) =>
      step("flaky", () => {
        if (++calls < 3) throw new Error(`down ${calls}`);
        return "up";
      });
    expect(await bench().attempt("flaky", job)).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(await bench().look("flaky")).toMatchObject({ state: "waiting", reason: "down 1", steps: [] });
    await bench().attempt("flaky", job);
    expect(await bench().attempt("flaky", job)).toEqual({ outcome: "done", result: '"up"' });
    expect(calls).toBe(3);
  });

  it("may be tried again within an attempt after they failed", async () => {
    let calls = 0;
    const ran = await bench().attempt("again", async (step) => {
      const call = () =>
        step("call", () => {
          if (++calls === 1) throw new Error("first");
          return calls;
        });
      return call().catch(call);
    });
    expect(ran).toEqual({ outcome: "done", result: "2" });
  });

  it("run again in their place where the function caught their failure and went on", async () => {
    const calls: string[] = [];
    let broken = true;
    const job: Parameters<ReturnType<typeof bench>["attempt"]>[1] = async (step) => {
      const errors: unknown[] = [];
      for (const user of ["a", "b", "c"]) {
        await step(`mail ${user}`, () => {
          calls.push(user);
          if (user === "b" && broken) throw new Error("smtp away");
        }).catch((error: unknown) => errors.push(error));
      }
      if (errors.length > 0) throw errors[0];
    };
    expect(await bench().attempt("gone on", job)).toMatchObject({ outcome: "failed", state: "waiting" });
    broken = false;
    expect(await bench().attempt("gone on", job)).toMatchObject({ outcome: "done" });
    expect(calls).toEqual(["a", "b", "c", "b"]);
  });

  it("kill the task with a Fatal error, and run again once it is revived", async () => {
    let fixed = false;
    const job = async (step: { <T>(name: string, fn: () => T): Promise<T> }) =>
      step("charge", () => {
        if (!fixed) throw new Fatal("the card does not exist");
        return "charged";
      });
    expect(await bench().attempt("fatal", job)).toMatchObject({ outcome: "failed", state: "dead" });
    expect(await bench().look("fatal")).toMatchObject({ state: "dead", reason: "the card does not exist" });
    fixed = true;
    await bench().engine.ledger.verbs.replay([{ scope, key: "fatal" }]);
    expect(await bench().attempt("fatal", job)).toEqual({ outcome: "done", result: '"charged"' });
  });

  it("throw a Fatal error that the function has caught again in later attempts, so that it takes the same way", async () => {
    let calls = 0;
    const seen: unknown[] = [];
    const job = async (
      step: { <T>(name: string, fn: () => T | Promise<T>): Promise<T> },
      die?: () => Promise<never>,
    ) => {
      try {
        await step("charge", () => {
          calls++;
          throw new Fatal("declined", { cause: new TypeError("card") });
        });
      } catch (error) {
        seen.push(error);
        await step("tell", () => die?.() ?? "told");
      }
    };
    await bench().dies("caught", job);
    expect(await bench().attempt("caught", (step) => job(step))).toMatchObject({ outcome: "done" });
    expect(calls).toBe(1);
    expect(seen[1]).toBeInstanceOf(Fatal);
    expect(seen[1]).toMatchObject({ message: "declined", code: "fatal" });
    expect((seen[1] as Error).cause).toBeInstanceOf(TypeError);
  });

  it("end the task where their result cannot be kept, since running again would repeat the effect", async () => {
    let calls = 0;
    const ran = await bench().attempt("unkeepable", (step) =>
      step("call", () => ((calls += 1), () => "a function")),
    );
    expect(ran).toMatchObject({ outcome: "failed", state: "dead" });
    expect((await bench().look("unkeepable"))["reason"]).toMatch(
      /result of step "call" cannot be kept.*it holds a function/,
    );
    expect(calls).toBe(1);
  });

  it("do not run again where their result cannot be kept, though the function caught that and went on", async () => {
    let charges = 0;
    const job: Parameters<ReturnType<typeof bench>["attempt"]>[1] = async (step) => {
      const charged = await step("charge", () => {
        charges++;
        return () => "a function";
      }).catch((error: unknown) => error);
      expect(charged).toBeInstanceOf(Fatal);
      await step("note", () => "noted");
      throw new Error("later");
    };
    for (let i = 0; i < 3; i++)
      expect(await bench().attempt("unkept", job)).toMatchObject({ error: { message: "later" } });
    expect(charges).toBe(1);
  });

  it("end the task where the function returns what cannot be kept", async () => {
    const ran = await bench().attempt("unkeepable result", () => new WeakMap());
    expect(ran).toMatchObject({ outcome: "failed", state: "dead" });
  });

  it("need a name of their own, and the message says how", async () => {
    const ran = await bench().attempt("twice", async (step) => {
      for (const user of [1, 2]) await step("mail", () => user);
    });
    expect(ran).toMatchObject({ outcome: "failed", error: { code: "step_duplicate" } });
    expect((await bench().look("twice"))["reason"]).toContain("give each its own");
  });

  it("refuse a name that the ledger could not keep", async () => {
    for (const name of ["", "x".repeat(256), "a\0b", "\ud800"]) {
      const ran = await bench().attempt(`name ${name.length}`, (step) => step(name, () => 1));
      expect(ran).toMatchObject({ outcome: "failed", error: { code: "value_invalid" } });
    }
  });

  it("do not stand within each other, but a step of another task may", async () => {
    const ran = await bench().attempt("nested", (step) => step("outer", () => step("inner", () => 1)));
    expect(ran).toMatchObject({ outcome: "failed", error: { code: "step_nested" } });
    const other = await bench().attempt("host", (step) =>
      step("outer", async () => (await bench().attempt("guest", (inner) => inner("inner", () => 1))).outcome),
    );
    expect(other).toEqual({ outcome: "done", result: '"done"' });
  });

  it("have a key that is the same in all attempts and differs by task, name and generation", async () => {
    const keys: string[] = [];
    const job = (step: { <T>(name: string, fn: (tools: { key: string }) => T | Promise<T>): Promise<T> }) =>
      step("mail", ({ key }) => void keys.push(key));
    await bench().dies("key", (step, die) => step("mail", ({ key }) => (keys.push(key), die())));
    await bench().attempt("key", job);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[0]).toMatch(/^[\w-]{32}$/);
    await bench().engine.ledger.verbs.replay([{ scope, key: "key" }], { again: true });
    await bench().attempt("key", job);
    await bench().attempt("key 2", job);
    const task = { scope, key: "key", generation: 1 };
    expect(stepKey(task, "mail")).toBe(keys[0]);
    expect(new Set([...keys, stepKey(task, "other")]).size).toBe(4);
    expect(stepKey({ ...task, scope: "job/step", key: "skey" }, "mail")).not.toBe(keys[0]);
  });

  it("of an attempt that was taken over are not saved, and no further one starts", async () => {
    const ran: string[] = [];
    let goOn!: () => void;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const zombie = bench().attempt("zombie", async (step) => {
      await step("a", () => ran.push("zombie a"));
      await paused;
      await step("b", () => ran.push("zombie b")).catch(() => ran.push("zombie caught"));
      await step("c", () => ran.push("zombie c"));
    });
    await vi.waitFor(async () => expect(await bench().steps("zombie")).toHaveLength(1), { timeout: 60_000 });
    await bench().clock.advance(bench().engine.ledger.leaseMs + 1);
    await bench().dies("zombie", async (step, die) => {
      await step("a", () => ran.push("other a"));
      await die();
    });
    goOn();
    expect(await zombie).toMatchObject({ outcome: "lost", error: { code: "claim_lost" } });
    expect(ran).not.toContain("zombie c");
    expect(ran).not.toContain("other a");
    expect((await bench().steps("zombie")).map((step) => step.name)).toEqual(["a"]);
  });

  it("are saved when the database comes back, without running again", async () => {
    const { ledger } = bench().engine;
    let calls = 0;
    let away = 2;
    const save = vi.spyOn(ledger, "saveStep").mockImplementation((step) => {
      if (away-- > 0) return Promise.reject(new OncewardError("database_unavailable", "away"));
      save.mockRestore();
      return ledger.saveStep(step);
    });
    const ran = await bench().attempt("away", (step) => step("once", () => ++calls));
    expect(ran).toEqual({ outcome: "done", result: "1" });
    expect(calls).toBe(1);
  });
});

describeSteps("code that changes between attempts", (bench) => {
  it("is found before a new step runs: a renamed step could repeat its effect", async () => {
    const mails: string[] = [];
    await bench().dies("renamed", async (step, die) => {
      await step("load", () => 1);
      await step("mail", () => mails.push("mail"));
      await die();
    });
    const ran = await bench().attempt("renamed", async (step) => {
      await step("load", () => 1);
      await step("email", () => mails.push("email"));
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "waiting", error: { code: "step_changed" } });
    expect((await bench().look("renamed"))["reason"]).toMatch(
      /Step "email" is new, but "mail", which an earlier attempt finished/,
    );
    expect(mails).toEqual(["mail"]);
  });

  it("is no change where steps run side by side and ask for each other's results in another order", async () => {
    type Steps = { <T>(name: string, fn: () => T | Promise<T>): Promise<T> };
    const item = async (
      step: Steps,
      n: number,
      between: Promise<unknown>,
      put: () => number | Promise<number>,
    ) => {
      await step(`get ${n}`, () => n);
      await between;
      return step(`put ${n}`, put);
    };
    await bench().dies("side by side", (step, die) => {
      const first = item(step, 1, Promise.resolve(), () => 1);
      return Promise.all([first, item(step, 2, first, die)]);
    });
    const asked: number[] = [];
    const ran = await bench().attempt("side by side", (step) => {
      const second = item(step, 2, Promise.resolve(), () => asked.push(2));
      return Promise.all([item(step, 1, second, () => asked.push(1)), second]);
    });
    expect(ran).toMatchObject({ outcome: "done" });
    expect(asked).toEqual([2]);
  });

  it("may add steps after the finished ones, and leave failed ones out", async () => {
    await bench().attempt("added", async (step) => {
      await step("a", () => 1);
      await step("b", () => Promise.reject(new Error("no")));
    });
    const ran = await bench().attempt(
      "added",
      async (step) => (await step("a", () => 0)) + (await step("c", () => 2)),
    );
    expect(ran).toEqual({ outcome: "done", result: "3" });
  });

  it("is told where a function ends without asking for a finished step", async () => {
    await bench().dies("removed", async (step, die) => {
      await step("old mail", () => 1);
      await die();
    });
    const warned = new Promise<Error & { code?: string }>((resolve) => process.once("warning", resolve));
    expect(await bench().attempt("removed", () => "done")).toMatchObject({ outcome: "done" });
    expect(await warned).toMatchObject({ name: "OncewardWarning", code: "ONCEWARD_STEP_CHANGED" });
    expect((await warned).message).toContain('without asking for "old mail"');
  });

  it("cannot make a step of a sleep", async () => {
    await bench().attempt("kind", (step) => step.sleep("pause", "1 hour"));
    expect(await bench().attempt("kind", (step) => step("pause", () => 1))).toMatchObject({
      outcome: "failed",
      error: { code: "step_changed" },
    });
    await bench().dies("kind 2", async (step, die) => {
      await step("work", { unknown: "never" }, () => die());
    });
    expect(await bench().attempt("kind 2", (step) => step.sleep("work", "1 hour"))).toMatchObject({
      outcome: "failed",
      error: { code: "step_changed" },
    });
  });
});
