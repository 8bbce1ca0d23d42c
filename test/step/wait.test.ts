import { expect, it, vi } from "vitest";
import { sendSignal } from "../../src/step/signal.ts";
import type { Step } from "../../src/step/step.ts";
import type { Ran } from "../../src/worker/lane.ts";
import { untilBlocked } from "../ledger/sessions.ts";
import { describeSteps, scope } from "./support.ts";

const hour = 3_600_000;

describeSteps("a sleep", (bench) => {
  it("gives its place away, and goes on when its time has come by the database's clock", async () => {
    const ran: string[] = [];
    const job = async (step: Step<unknown>) => {
      await step("before", () => ran.push("before"));
      await step.sleep("pause", "1 hour");
      await step("after", () => ran.push("after"));
    };
    expect(await bench().dueAttempt("sleep", job)).toEqual({ outcome: "waiting" });
    expect(await bench().look("sleep")).toMatchObject({ state: "waiting", tries: 0 });
    expect(await bench().dueAttempt("sleep", job)).toBeUndefined();
    await bench().clock.advance(hour - 10_000);
    expect(await bench().dueAttempt("sleep", job)).toBeUndefined();
    await bench().clock.advance(10_000);
    expect(await bench().dueAttempt("sleep", job)).toMatchObject({ outcome: "done" });
    expect(ran).toEqual(["before", "after"]);
  });

  it("is not ended by somebody who claims the task early, and keeps its end", async () => {
    const job = (step: Step<unknown>) => step.sleep("pause", hour);
    await bench().attempt("early", job);
    const due = (await bench().look("early"))["due_at"] as string;
    expect(await bench().attempt("early", job)).toEqual({ outcome: "waiting" });
    const again = (await bench().look("early"))["due_at"] as string;
    expect(Date.parse(again)).toBeLessThanOrEqual(Date.parse(due));
    expect(Date.parse(again)).toBeGreaterThan(Date.parse(due) - 5_000);
  });

  it("that a crash interrupted is not started anew", async () => {
    const key = "crash";
    // The process dies after the sleep was written down and before the task was put to sleep.
    await bench().dies(key, (step, die) =>
      Promise.all([
        step.sleep("pause", hour),
        step("busy", async () => {
          await vi.waitFor(async () => expect(await bench().steps(key)).toHaveLength(1), { timeout: 60_000 });
          return die();
        }),
      ]),
    );
    const left = hour - (bench().engine.ledger.leaseMs + 1);
    expect(await bench().dueAttempt(key, (step) => step.sleep("pause", hour))).toEqual({
      outcome: "waiting",
    });
    await bench().clock.advance(left);
    expect(await bench().dueAttempt(key, (step) => step.sleep("pause", hour))).toMatchObject({
      outcome: "done",
    });
  });

  it("cannot be swallowed by a try/catch, and its end is fixed by the first attempt", async () => {
    const job = (duration: number) => async (step: Step<unknown>) => {
      try {
        await step.sleep("pause", duration);
      } catch {
        return "swallowed";
      }
      return "slept";
    };
    expect(await bench().dueAttempt("swallow", job(hour))).toEqual({ outcome: "waiting" });
    await bench().clock.advance(hour);
    expect(await bench().dueAttempt("swallow", job(5 * hour))).toEqual({
      outcome: "done",
      result: '"slept"',
    });
  });

  it("until a date ends then, and at once where the date has passed", async () => {
    const at = new Date((await bench().clock.now()) + hour);
    const job = (step: Step<unknown>) => step.sleepUntil("until", at);
    expect(await bench().dueAttempt("until", job)).toEqual({ outcome: "waiting" });
    expect(Date.parse((await bench().look("until"))["due_at"] as string)).toBe(at.getTime());
    await bench().clock.advance(hour);
    expect(await bench().dueAttempt("until", job)).toMatchObject({ outcome: "done" });
    const past = (step: Step<unknown>) => step.sleepUntil("until", new Date(0));
    expect(await bench().attempt("past", past)).toMatchObject({ outcome: "done" });
  });

  it("refuses what is no time", async () => {
    const wrong = [
      (step: Step<unknown>) => step.sleepUntil("x", new Date(Number.NaN)),
      (step: Step<unknown>) => step.sleep("x", "a while"),
      (step: Step<unknown>) => step.sleep("x", -1),
      (step: Step<unknown>) => step.sleep("x", 1e15),
      (step: Step<unknown>) => step.sleepUntil("x", new Date(8.64e15)),
    ];
    for (const [i, job] of wrong.entries()) {
      expect(await bench().attempt(`wrong ${i}`, job)).toMatchObject({
        outcome: "failed",
        error: { code: "value_invalid" },
      });
    }
  });

  it("beside a step lets the step finish and go on first; the earliest of several sleeps wakes", async () => {
    const ran: string[] = [];
    const job = (step: Step<unknown>) =>
      Promise.all([
        step.sleep("long", 3 * hour),
        step.sleep("short", hour),
        (async () => {
          await step("slow", () => new Promise((resolve) => setTimeout(() => resolve(ran.push("slow")), 20)));
          await step("next", () => new Promise((resolve) => setTimeout(() => resolve(ran.push("next")), 20)));
        })(),
      ]);
    expect(await bench().dueAttempt("beside", job)).toEqual({ outcome: "waiting" });
    expect(ran).toEqual(["slow", "next"]);
    await bench().clock.advance(hour);
    expect(await bench().dueAttempt("beside", job)).toEqual({ outcome: "waiting" });
    expect(await bench().dueAttempt("beside", job)).toBeUndefined();
    await bench().clock.advance(2 * hour);
    expect(await bench().dueAttempt("beside", job)).toMatchObject({ outcome: "done" });
    expect(ran).toEqual(["slow", "next"]);
  });
});

describeSteps("a wait for a signal", (bench) => {
  const send = (key: string, name: string, value?: unknown, options?: Parameters<typeof sendSignal>[4]) =>
    sendSignal(bench().engine, { scope, key }, name, value, options);

  it("gives its place away until somebody says the word; the first word counts", async () => {
    const job = (step: Step<unknown>) => step.waitFor("approval");
    expect(await bench().dueAttempt("approve", job)).toEqual({ outcome: "waiting" });
    await bench().clock.advance(1000 * hour);
    expect(await bench().dueAttempt("approve", job)).toBeUndefined();
    expect(await send("approve", "something else")).toEqual({ outcome: "sent" });
    expect(await bench().dueAttempt("approve", job)).toBeUndefined();
    expect(await send("approve", "approval", { at: new Date(5) }, { actor: "ann" })).toEqual({
      outcome: "sent",
    });
    expect(await send("approve", "approval", "no")).toEqual({ outcome: "duplicate" });
    let waited: unknown;
    await bench().dueAttempt("approve", async (step) => (waited = await step.waitFor("approval")));
    expect(waited).toEqual({ outcome: "signalled", value: { at: new Date(5) }, actor: "ann" });
  });

  it("takes a word that came before it waited", async () => {
    await bench().attempt("before", (step) => step("fails", () => Promise.reject(new Error("not yet"))));
    expect(await send("before", "go", 1)).toEqual({ outcome: "sent" });
    const ran = await bench().attempt("before", (step) => step.waitFor("go"));
    expect(ran).toMatchObject({ outcome: "done", result: '{"outcome":"signalled","value":1,"actor":null}' });
  });

  it("keeps its answer for later attempts", async () => {
    await bench().attempt("kept", (step) => step.waitFor("go"));
    await send("kept", "go", "yes");
    const seen: unknown[] = [];
    await bench().dies("kept", async (step, die) => {
      seen.push(await step.waitFor("go"));
      await die();
    });
    await bench().attempt("kept", async (step) => void seen.push(await step.waitFor("go")));
    expect(seen[1]).toEqual(seen[0]);
  });

  it("ends with a time-out by the database's clock, and then an answer is late", async () => {
    const job = (step: Step<unknown>) => step.waitFor("approval", { timeout: "3 days" });
    expect(await bench().dueAttempt("timeout", job)).toEqual({ outcome: "waiting" });
    await bench().clock.advance(72 * hour - 5_000);
    expect(await bench().dueAttempt("timeout", job)).toBeUndefined();
    await bench().clock.advance(5_000);
    expect(await bench().dueAttempt("timeout", job)).toEqual({
      outcome: "done",
      result: '{"outcome":"timeout"}',
    });
    expect(await send("timeout", "approval", "yes")).toEqual({ outcome: "late" });
    expect(await send("nobody", "approval", "yes")).toEqual({ outcome: "missing" });
  });

  it("takes an answer that is being sent while its time-out is being kept", async () => {
    const { database, clock } = bench();
    const key = "last call";
    const job = (step: Step<unknown>) => step.waitFor("ok", { timeout: hour });
    await bench().attempt(key, job);
    await clock.advance(hour + 1);
    let ran: Promise<Ran | undefined> | undefined;
    await database.transaction(async (_tx, queryable) => {
      const { rows } = await queryable.query("select onceward.signal($1::text, $2::text, 'ok', '1') as a", [
        scope,
        key,
      ]);
      expect(rows[0]?.["a"]).toEqual({ outcome: "sent" });
      ran = bench().dueAttempt(key, job);
      await untilBlocked(database, 1);
    });
    expect(JSON.parse(((await ran) as { result: string }).result)).toMatchObject({ outcome: "signalled" });
  });

  it("refuses an answer that is no JSON, from whatever language", async () => {
    const job = (step: Step<unknown>) => step.waitFor("ok");
    await bench().attempt("not json", job);
    const say = async (value: string) => {
      const { rows } = await bench().database.query(
        "select onceward.signal($1::text, 'not json', 'ok', $2::text) as a",
        [scope, value],
      );
      return rows[0]?.["a"];
    };
    expect(await say("yes")).toEqual({ outcome: "refused", code: "value_invalid" });
    expect(await say('"yes"')).toEqual({ outcome: "sent" });
    expect(await bench().attempt("not json", job)).toMatchObject({ outcome: "done" });
  });

  it("of undefined does not take an approval of something else", async () => {
    const job = (step: Step<unknown>) => step.waitFor("ok", { of: undefined });
    await bench().attempt("undefined", job);
    const sent = await sendSignal(bench().engine, { scope, key: "undefined" }, "ok", "yes", { of: "it" });
    expect(sent).toMatchObject({ outcome: "conflict" });
  });

  it("wakes by whichever of several comes first", async () => {
    const job = (step: Step<unknown>) => Promise.race([step.waitFor("a"), step.waitFor("b")]);
    expect(await bench().dueAttempt("several", job)).toEqual({ outcome: "waiting" });
    await send("several", "b", 2);
    expect(await bench().dueAttempt("several", job)).toMatchObject({ outcome: "done" });
  });

  it("does not sleep through a second signal that comes while the attempt ends", async () => {
    const { verbs } = bench().engine.ledger;
    const defer = verbs.defer.bind(verbs);
    vi.spyOn(verbs, "defer").mockImplementationOnce(async (...claim) => {
      expect(await send("meanwhile", "b", 2)).toEqual({ outcome: "sent" });
      return defer(...claim);
    });
    const job = (step: Step<unknown>) => Promise.race([step.waitFor("a"), step.waitFor("b")]);
    expect(await bench().dueAttempt("meanwhile", job)).toEqual({ outcome: "waiting" });
    expect(await bench().dueAttempt("meanwhile", job)).toMatchObject({ outcome: "done" });
  });

  it("counts an approval only for exactly what was to be approved", async () => {
    const draft = { to: "ann@example.com", body: "Hello" };
    const job = (of: unknown) => (step: Step<unknown>) => step.waitFor("approval", { of });
    await bench().dueAttempt("bound", job(draft));
    const expected = { outcome: "conflict", expected: expect.stringMatching(/^[0-9a-f]{64}$/) };
    expect(await send("bound", "approval", "yes")).toEqual(expected);
    expect(await send("bound", "approval", "yes", { of: { ...draft, body: "Hello!" } })).toEqual(expected);
    expect(await bench().dueAttempt("bound", job(draft))).toBeUndefined();
    expect(await send("bound", "approval", "yes", { of: { body: "Hello", to: "ann@example.com" } })).toEqual({
      outcome: "sent",
    });
    expect(await bench().dueAttempt("bound", job(draft))).toMatchObject({ outcome: "done" });
  });

  it("shows what is to be approved to whoever is asked, who answers with its fingerprint", async () => {
    await bench().dueAttempt("shown", (step) => step.waitFor("approval", { of: { price: 5 } }));
    const [waiting] = await bench().steps("shown");
    const { of, fingerprint } = JSON.parse(waiting!.value!) as { of: unknown; fingerprint: string };
    expect(of).toEqual({ price: 5 });
    expect(await send("shown", "approval", "yes", { fingerprint })).toEqual({ outcome: "sent" });
  });

  it("does not count an approval of what was to be approved before it changed", async () => {
    const job = (of: unknown) => (step: Step<unknown>) => step.waitFor("approval", { of, timeout: hour });
    await bench().dueAttempt("changed", job("draft 1"));
    expect(await send("changed", "approval", "yes", { of: "draft 1" })).toEqual({ outcome: "sent" });
    // The function asks for something else now.
    expect(await bench().dueAttempt("changed", job("draft 2"))).toEqual({ outcome: "waiting" });
    expect(await bench().dueAttempt("changed", job("draft 2"))).toBeUndefined();
    expect(await send("changed", "approval", "yes", { of: "draft 1" })).toMatchObject({
      outcome: "conflict",
    });
    expect(await send("changed", "approval", "yes", { of: "draft 2" })).toEqual({ outcome: "sent" });
    expect(await bench().dueAttempt("changed", job("draft 2"))).toMatchObject({ outcome: "done" });
  });

  it("does not take an approval of an earlier generation", async () => {
    const job = (step: Step<unknown>) => step.waitFor("approval");
    await bench().dueAttempt("generation", job);
    await send("generation", "approval", "yes");
    expect(await bench().dueAttempt("generation", job)).toMatchObject({ outcome: "done" });
    await bench().engine.ledger.verbs.replay([{ scope, key: "generation" }], { again: true });
    expect(await bench().dueAttempt("generation", job)).toEqual({ outcome: "waiting" });
  });
});
