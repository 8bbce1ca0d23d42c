import { expect, it } from "vitest";
import { Fatal } from "../../src/errors.ts";
import { NotDone } from "../../src/step/outcome.ts";
import type { StepOptions, Verdict } from "../../src/step/step.ts";
import { describeSteps, scope, type StepBench } from "./support.ts";

/** A provider that forgets keys after a day. */
function provider() {
  const calls: string[] = [];
  return {
    calls,
    charge(key: string): string {
      calls.push(key);
      return `charge ${calls.length}`;
    },
    find: (key: string): Verdict<string> =>
      calls.includes(key) ? { done: true, value: `charge ${calls.indexOf(key) + 1}` } : { done: false },
  };
}

/** An attempt whose process dies after the call and before its result is saved. */
const diesAfterCall = (
  bench: StepBench,
  key: string,
  options: StepOptions<string>,
  call: (key: string) => unknown,
) =>
  bench.dies(key, (step, die) =>
    step("charge", options, async (tools) => {
      call(tools.key);
      return die();
    }),
  );

describeSteps("the unknown outcome of a step", (bench) => {
  it("retry: it runs again with the same key, and nothing is written before the call", async () => {
    const { calls, charge } = provider();
    await diesAfterCall(bench(), "retry", {}, charge);
    expect(await bench().steps("retry")).toEqual([]);
    const ran = await bench().attempt("retry", (step) => step("charge", ({ key }) => charge(key)));
    expect(ran).toMatchObject({ outcome: "done" });
    expect(calls).toHaveLength(2);
    expect(new Set(calls).size).toBe(1);
  });

  it("never: it is called at most once, and the task is parked for a person to see", async () => {
    const { calls, charge } = provider();
    const options = { unknown: "never" } as const;
    await diesAfterCall(bench(), "never", options, charge);
    expect(await bench().steps("never")).toMatchObject([{ name: "charge", state: "started" }]);
    const ran = await bench().attempt("never", (step) => step("charge", options, ({ key }) => charge(key)));
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown", error: { code: "outcome_unknown" } });
    expect(await bench().look("never")).toMatchObject({ state: "unknown" });
    expect((await bench().look("never"))["reason"]).toContain(
      'Nobody knows whether step "charge" took effect',
    );
    expect(calls).toHaveLength(1);
  });

  it("cannot be swallowed by a try/catch around the step", async () => {
    const options = { unknown: "never" } as const;
    await diesAfterCall(bench(), "swallow", options, () => undefined);
    let wentOn = false;
    const ran = await bench().attempt("swallow", async (step) => {
      await step("charge", options, () => "again").catch(() => undefined);
      wentOn = true;
    });
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown" });
    expect(wentOn).toBe(false);
  });

  it("a person says that it was done: its value is kept, and the task goes on from there", async () => {
    const { verbs } = bench().engine.ledger;
    const options = { unknown: "never" } as const;
    await diesAfterCall(bench(), "resolved", options, () => undefined);
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", options, () => "mine");
    await bench().attempt("resolved", job);
    await verbs.resolveStep(
      { scope, key: "resolved" },
      { name: "charge", decision: "done", value: '"theirs"', actor: "ann" },
    );
    await verbs.replay([{ scope, key: "resolved" }], { actor: "ann" });
    expect(await bench().attempt("resolved", job)).toEqual({ outcome: "done", result: '"theirs"' });
  });

  it("a person says that it was not done: it runs", async () => {
    const { verbs } = bench().engine.ledger;
    const options = { unknown: "never" } as const;
    await diesAfterCall(bench(), "not done", options, () => undefined);
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", options, () => "mine");
    await bench().attempt("not done", job);
    await verbs.resolveStep({ scope, key: "not done" }, { name: "charge", decision: "not done" });
    await verbs.replay([{ scope, key: "not done" }]);
    expect(await bench().attempt("not done", job)).toEqual({ outcome: "done", result: '"mine"' });
  });

  it("verify: what the provider has done is kept and not done again", async () => {
    const { calls, charge, find } = provider();
    const options = { unknown: { verify: find } };
    await diesAfterCall(bench(), "verify done", options, charge);
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", options, ({ key }) => charge(key));
    expect(await bench().attempt("verify done", job)).toEqual({ outcome: "done", result: '"charge 1"' });
    expect(calls).toHaveLength(1);
    expect(await bench().steps("verify done")).toMatchObject([
      { state: "done", attempt: 2, value: '"charge 1"' },
    ]);
  });

  it("verify: what the provider has not done is done, and the function learns when it was started before", async () => {
    const { calls, charge, find } = provider();
    const options = { unknown: { verify: find } };
    await diesAfterCall(bench(), "verify not", options, () => undefined);
    const started = (await bench().look("verify not"))["steps"] as { started_at: string }[];
    let before: Date | undefined;
    const ran = await bench().attempt("verify not", (step) =>
      step("charge", options, ({ key, startedBefore }) => {
        before = startedBefore;
        return charge(key);
      }),
    );
    expect(ran).toEqual({ outcome: "done", result: '"charge 1"' });
    expect(calls).toHaveLength(1);
    expect(before).toEqual(new Date(started[0]!.started_at));
  });

  it("verify: what the provider cannot tell is parked; an error while asking is tried again later", async () => {
    let answer: "down" | "unknown" = "down";
    const options: StepOptions<string> = {
      unknown: {
        verify: () => {
          if (answer === "down") throw new Error("the provider is down");
          return answer;
        },
      },
    };
    await diesAfterCall(bench(), "verify unknown", options, () => undefined);
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", options, () => "again");
    expect(await bench().attempt("verify unknown", job)).toMatchObject({
      outcome: "failed",
      state: "waiting",
    });
    answer = "unknown";
    expect(await bench().attempt("verify unknown", job)).toMatchObject({
      outcome: "failed",
      state: "unknown",
    });
  });

  it("keyLasts: it is repeated while the provider knows the key, and then not blindly", async () => {
    const { calls, charge } = provider();
    const options = { keyLasts: "24 hours" };
    await diesAfterCall(bench(), "expires", options, charge);
    await diesAfterCall(bench(), "expires", options, charge);
    expect(calls).toHaveLength(2);
    await bench().clock.advance(24 * 3_600_000);
    const ran = await bench().attempt("expires", (step) => step("charge", options, ({ key }) => charge(key)));
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown" });
    expect((await bench().look("expires"))["reason"]).toContain("the provider has forgotten its key");
    expect(calls).toHaveLength(2);
  });

  it("keyLasts with verify: it asks once the key has expired, and not before", async () => {
    const { calls, charge, find } = provider();
    let asked = 0;
    const options = { keyLasts: "24 hours", unknown: { verify: (key: string) => (asked++, find(key)) } };
    await diesAfterCall(bench(), "expires asks", options, charge);
    await diesAfterCall(bench(), "expires asks", options, charge);
    expect(asked).toBe(0);
    await bench().clock.advance(25 * 3_600_000);
    const ran = await bench().attempt("expires asks", (step) =>
      step("charge", options, ({ key }) => charge(key)),
    );
    expect(ran).toMatchObject({ outcome: "done", result: '"charge 1"' });
    expect({ asked, calls: calls.length }).toEqual({ asked: 1, calls: 2 });
  });

  it("keyLasts means nothing to what is never repeated", async () => {
    const ran = await bench().attempt("both", (step) =>
      step("x", { unknown: "never", keyLasts: 1 }, () => 1),
    );
    expect(ran).toMatchObject({ outcome: "failed", error: { code: "config_invalid" } });
  });
});

describeSteps("an error of a step that must not run twice", (bench) => {
  const never = { unknown: "never" } as const;

  it("parks the task: a time-out says nothing about what happened", async () => {
    const ran = await bench().attempt("timeout", (step) =>
      step("charge", never, () => Promise.reject(new Error("socket hang up"))),
    );
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown", error: { code: "outcome_unknown" } });
    expect((await bench().look("timeout"))["reason"]).toContain("socket hang up");
  });

  it("lets the results of what runs beside it be saved first", async () => {
    const ran = await bench().attempt("beside", (step) =>
      Promise.all([
        step("charge", never, () => Promise.reject(new Error("socket hang up"))),
        step("slow", async () => {
          await new Promise((resolve) => setTimeout(resolve, 30));
          return "kept";
        }),
      ]),
    );
    expect(ran).toMatchObject({ outcome: "failed", state: "unknown" });
    expect(await bench().steps("beside")).toMatchObject([
      { name: "charge", state: "started" },
      { name: "slow", state: "done", value: '"kept"' },
    ]);
  });

  it("is tried again where it is certain that nothing happened", async () => {
    let calls = 0;
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", never, () => {
        if (++calls === 1) throw new NotDone("connection refused");
        return "charged";
      });
    expect(await bench().attempt("not done", job)).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(await bench().attempt("not done", job)).toEqual({ outcome: "done", result: '"charged"' });
    expect(calls).toBe(2);
  });

  it("kills the task where it is Fatal, and a revived task tries again", async () => {
    let fixed = false;
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", never, () => {
        if (!fixed) throw new Fatal("no such card");
        return "charged";
      });
    expect(await bench().attempt("fatal", job)).toMatchObject({ outcome: "failed", state: "dead" });
    fixed = true;
    await bench().engine.ledger.verbs.replay([{ scope, key: "fatal" }]);
    expect(await bench().attempt("fatal", job)).toEqual({ outcome: "done", result: '"charged"' });
  });

  it("is verified in the next attempt where it can be", async () => {
    const { calls, charge, find } = provider();
    const options = { unknown: { verify: find } };
    const job = (step: Parameters<Parameters<StepBench["attempt"]>[1]>[0]) =>
      step("charge", options, ({ key }) => {
        charge(key);
        throw new Error("socket hang up");
      });
    expect(await bench().attempt("hang up", job)).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(await bench().attempt("hang up", job)).toEqual({ outcome: "done", result: '"charge 1"' });
    expect(calls).toHaveLength(1);
  });
});
