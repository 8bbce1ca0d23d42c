import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { ActionFunction } from "../../src/action/action.ts";
import { runAction, takeAction } from "../../src/action/run.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { Fatal, OncewardError } from "../../src/errors.ts";
import { sendSignal } from "../../src/step/signal.ts";
import { Engine } from "../../src/worker/engine.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith } from "../support/postgres.ts";
import { watched } from "../worker/support.ts";

const hour = 3_600_000;

describeWith("newest", "an action", (fresh) => {
  let pool: pg.Pool;
  let engine: Engine<pg.PoolClient>;
  let clock: Clock;
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: fresh().url, max: 10 });
    engine = new Engine(pgDatabase(pool));
    await engine.ready();
    clock = await fakeClock(engine.database);
  });
  afterAll(() => pool?.end());
  const codeOf = (call: Promise<unknown>): Promise<unknown> =>
    call.then(
      () => "no error",
      (error: unknown) => (error instanceof OncewardError ? error.code : error),
    );
  const look = async (key: string) =>
    (await engine.ledger.verbs.look({ scope: "action", key })) as Record<string, unknown>;

  it("runs once for its key: the first caller gets its value, later ones the same value", async () => {
    const run = vi.fn<() => { at: Date; n: bigint }>(() => ({ at: new Date(5), n: 1n }));
    const first = await takeAction(engine, "once", run);
    const second = await takeAction(engine, "once", run);
    expect(first).toEqual({ outcome: "done", value: { at: new Date(5), n: 1n } });
    expect(second).toEqual({ outcome: "duplicate", value: { at: new Date(5), n: 1n } });
    expect(await runAction(engine, "once", run)).toEqual({ at: new Date(5), n: 1n });
    expect(run).toHaveBeenCalledTimes(1);
  });

  it("keeps undefined, null and false as what they are", async () => {
    for (const value of [undefined, null, false]) {
      await runAction(engine, `keeps ${value}`, () => value);
      expect(await runAction(engine, `keeps ${value}`, () => "another")).toBe(value);
    }
  });

  it("calls nobody where its caller stood still until another had done it", async () => {
    const statements = watched(engine.database);
    const slow = new Engine(statements.database, { leaseMs: 300 });
    const calls: string[] = [];
    const charge =
      (who: string): ActionFunction<string, pg.PoolClient> =>
      ({ step }) =>
        step("charge", () => {
          calls.push(who);
          return who;
        });
    const answers = ["record_many", "record_call"].map((verb) => statements.holdAfter(verb));
    const paused = takeAction(slow, "paused", charge("the paused one"));
    await Promise.race(answers.map(({ reached }) => reached));
    await clock.advance(301);
    // The clock of the process, too.
    await new Promise((resolve) => setTimeout(resolve, 301));
    expect(await runAction(engine, "paused", charge("the other"))).toBe("the other");
    for (const { release } of answers) release();
    expect(await paused).toEqual({ outcome: "duplicate", value: "the other" });
    expect(calls).toEqual(["the other"]);
  });

  it("lets concurrent callers wait for the one who runs it", async () => {
    let runs = 0;
    let finish!: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const fn = async () => {
      runs++;
      await finished;
      return "value";
    };
    const other = new Engine(engine.database);
    const calls = [engine, other, engine, other, engine].map((one) => takeAction(one, "concurrent", fn));
    await vi.waitFor(() => expect(runs).toBe(1), { timeout: 60_000 });
    finish();
    const outcomes = await Promise.all(calls);
    expect(outcomes.map((one) => one.outcome).toSorted()).toEqual([
      "done",
      ...Array<string>(4).fill("duplicate"),
    ]);
    expect(new Set(outcomes.map((one) => "value" in one && one.value))).toEqual(new Set(["value"]));
    expect(runs).toBe(1);
  });

  it("says that it is running to who does not wait, or not for so long", async () => {
    let finish!: () => void;
    const running = new Promise<void>((resolve) => {
      void runAction(engine, "running", () => {
        resolve();
        return new Promise<void>((end) => (finish = end));
      });
    });
    await running;
    expect(await takeAction(engine, "running", () => 1, { wait: false })).toEqual({ outcome: "running" });
    expect(await takeAction(engine, "running", () => 1, { wait: 30 })).toEqual({ outcome: "running" });
    expect(await codeOf(runAction(engine, "running", () => 1, { wait: false }))).toBe("already_running");
    const controller = new AbortController();
    const waiting = runAction(engine, "running", () => 1, { signal: controller.signal });
    controller.abort(new Error("the caller went away"));
    await expect(waiting).rejects.toThrow("the caller went away");
    finish();
    expect(await runAction(engine, "running", () => 1)).toBe(undefined);
  });

  it("is refused for the same key with another input, with both fingerprints", async () => {
    const run = vi.fn<() => string>(() => "charged");
    await runAction(engine, "conflict", run, { input: { amount: 5, to: "ann@example.com" } });
    expect(await runAction(engine, "conflict", run, { input: { to: "ann@example.com", amount: 5 } })).toBe(
      "charged",
    );
    for (const input of [{ amount: 50, to: "ann@example.com" }, undefined, null]) {
      const error = (await runAction(engine, "conflict", run, { input }).catch(
        (one: unknown) => one,
      )) as OncewardError;
      expect(error).toMatchObject({ code: "input_conflict", status: 422 });
      const fingerprints = error.message.match(/[0-9a-f]{64}/g)!;
      expect(new Set(fingerprints).size).toBe(2);
      expect(error.message).not.toContain("ann@");
    }
    expect(run).toHaveBeenCalledTimes(1);
    expect((await look("conflict"))["log"]).toMatchObject([
      { what: "conflict" },
      { what: "conflict" },
      { what: "conflict" },
    ]);
  });

  it("that failed is run again by the next caller at once, from its last finished step", async () => {
    const ran: string[] = [];
    const act = (fails: boolean) =>
      runAction(
        engine,
        "failed",
        async ({ step, attempt }) => {
          await step("reserve", () => ran.push(`reserve ${attempt}`));
          return step("charge", () => {
            ran.push(`charge ${attempt}`);
            if (fails) throw new RangeError("declined");
            return "charged";
          });
        },
        { wait: false },
      );
    await expect(act(true)).rejects.toThrow(RangeError);
    expect(await act(false)).toBe("charged");
    expect(ran).toEqual(["reserve 1", "charge 1", "charge 2"]);
  });

  it("that failed while others waited for it is tried by one of them", async () => {
    let begun!: () => void;
    const running = new Promise<void>((resolve) => (begun = resolve));
    let fail!: (error: Error) => void;
    const first = runAction(engine, "handed on", () => {
      begun();
      return new Promise<string>((_, reject) => (fail = reject));
    });
    await running;
    const second = takeAction(engine, "handed on", () => "mended");
    fail(new Error("broken"));
    await expect(first).rejects.toThrow("broken");
    expect(await second).toEqual({ outcome: "done", value: "mended" });
  });

  it("that is dead says why and how to revive it, and goes on once it is revived", async () => {
    await expect(
      runAction(engine, "dead", () => {
        throw new Fatal("no such card");
      }),
    ).rejects.toThrow(Fatal);
    const error = (await runAction(engine, "dead", () => "again").catch(
      (one: unknown) => one,
    )) as OncewardError;
    expect(error.code).toBe("fatal");
    expect(error.message).toMatch(/is dead: no such card.*replay it/);
    await engine.ledger.verbs.replay([{ scope: "action", key: "dead" }]);
    expect(await runAction(engine, "dead", () => "again")).toBe("again");
  });

  it("is dead after as many failed attempts as it may have", async () => {
    const act = () =>
      runAction(engine, "bounded", () => Promise.reject(new Error("down")), { maxAttempts: 2 });
    await expect(act()).rejects.toThrow(/^down$/);
    await expect(act()).rejects.toThrow(/^down$/);
    await expect(act()).rejects.toThrow(/is dead: down/);
  });

  it("whose outcome is unknown, or that was cancelled, says so to every caller", async () => {
    const act = () =>
      runAction(engine, "unknown", ({ step }) =>
        step("charge", { unknown: "never" }, () => Promise.reject(new Error("hung up"))),
      );
    expect(await codeOf(act())).toBe("outcome_unknown");
    expect(await codeOf(act())).toBe("outcome_unknown");
    await expect(runAction(engine, "cancelled", () => Promise.reject(new Error("x")))).rejects.toThrow("x");
    await engine.ledger.verbs.cancel({ scope: "action", key: "cancelled" }, { reason: "not wanted" });
    expect(await codeOf(runAction(engine, "cancelled", () => 1))).toBe("cancelled");
  });

  it("of a caller that crashed is taken over when its lease ends, from the last finished step", async () => {
    const ran: string[] = [];
    const doomed = new Engine(engine.database);
    await new Promise<void>((died) => {
      void takeAction(doomed, "crashed", async ({ step }) => {
        await step("a", () => ran.push("a"));
        died();
        return new Promise<never>(() => {});
      });
    });
    const next = takeAction(engine, "crashed", async ({ step }) => {
      await step("a", () => ran.push("a again"));
      await step("b", () => ran.push("b"));
      return "finished";
    });
    await clock.advance(engine.ledger.leaseMs + 1);
    expect(await next).toEqual({ outcome: "done", value: "finished" });
    expect(ran).toEqual(["a", "b"]);
  });

  it("that lost its claim gives its caller the value of who took over", async () => {
    let begun!: () => void;
    const running = new Promise<void>((resolve) => (begun = resolve));
    let goOn!: () => void;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const zombie = takeAction(engine, "zombie", async () => {
      begun();
      await paused;
      return "of the zombie";
    });
    await running;
    await clock.advance(engine.ledger.leaseMs + 1);
    expect(await runAction(engine, "zombie", () => "of who took over")).toBe("of who took over");
    goOn();
    expect(await zombie).toEqual({ outcome: "duplicate", value: "of who took over" });
  });

  it("that sleeps tells its caller, and goes on with the first call after its time", async () => {
    const ran: string[] = [];
    const act = () =>
      takeAction(engine, "sleeps", async ({ step }) => {
        await step("before", () => ran.push("before"));
        await step.sleep("pause", "1 hour");
        return "slept";
      });
    expect(await act()).toEqual({ outcome: "waiting" });
    expect(await act()).toEqual({ outcome: "waiting" });
    expect(await codeOf(runAction(engine, "sleeps", ({ step }) => step.sleep("pause", 1)))).toBe(
      "still_waiting",
    );
    await clock.advance(hour);
    expect(await act()).toEqual({ outcome: "done", value: "slept" });
    expect(ran).toEqual(["before"]);
  });

  it("that sleeps for a moment is waited for", async () => {
    expect(
      await takeAction(engine, "naps", async ({ step }) => (await step.sleep("nap", 20), "slept")),
    ).toEqual({
      outcome: "done",
      value: "slept",
    });
  });

  it("that waits for an approval goes on for the caller who waits for it", async () => {
    const act = (wait: number | false) =>
      takeAction(engine, "approval", async ({ step }) => step.waitFor("approval", { of: "draft" }), { wait });
    expect(await act(false)).toEqual({ outcome: "waiting" });
    const waiting = act(30_000);
    await sendSignal(engine, { scope: "action", key: "approval" }, "approval", "yes", {
      of: "draft",
      actor: "ann",
    });
    expect(await waiting).toEqual({
      outcome: "done",
      value: { outcome: "signalled", value: "yes", actor: "ann" },
    });
  });

  it("has keys of its own in every scope, and passes its input on", async () => {
    const double = ({ input }: { input: number }) => input * 2;
    expect(await runAction(engine, "scoped", double, { scope: "action/a", input: 2 })).toBe(4);
    expect(await runAction(engine, "scoped", double, { scope: "action/b", input: 3 })).toBe(6);
  });

  it("is aborted when its deadline passes or its caller gives up, and may be tried again", async () => {
    const hang = ({ signal }: { signal: AbortSignal }) =>
      new Promise<string>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    expect(await codeOf(runAction(engine, "deadline", hang, { deadline: 20 }))).toBe("deadline_passed");
    expect(await runAction(engine, "deadline", () => "in time")).toBe("in time");
    const controller = new AbortController();
    const call = runAction(engine, "gives up", hang, { signal: controller.signal });
    await vi.waitFor(async () => expect(await look("gives up")).toMatchObject({ state: "running" }), {
      timeout: 60_000,
    });
    controller.abort(new Error("the request was closed"));
    await expect(call).rejects.toThrow("the request was closed");
    expect(await runAction(engine, "gives up", () => "again")).toBe("again");
  });

  it("refuses an input that could not be kept", async () => {
    expect(await codeOf(runAction(engine, "bad input", () => 1, { input: () => 1 }))).toBe("value_invalid");
    expect(await codeOf(runAction(engine, "", () => 1))).toBe("key_invalid");
  });
});
