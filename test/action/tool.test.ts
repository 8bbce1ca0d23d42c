import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { tool } from "../../src/action/tool.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { Engine } from "../../src/worker/engine.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("newest", "an agent's tool", (fresh) => {
  let pool: pg.Pool;
  let engine: Engine<pg.PoolClient>;
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: fresh().url, max: 5 });
    engine = new Engine(pgDatabase(pool));
    await engine.ready();
  });
  afterAll(() => pool?.end());

  it("runs once for its arguments in a run, whatever the order of their members", async () => {
    const run = vi.fn<(args: { to: string; body?: string }) => string>(({ to }) => `sent to ${to}`);
    const send = tool(engine, { name: "send_mail", run });
    expect(await send.outcome({ to: "ann", body: "hi" }, { runId: "run 1" })).toEqual({
      outcome: "done",
      value: "sent to ann",
    });
    expect(await send({ body: "hi", to: "ann" }, { runId: "run 1" })).toBe("sent to ann");
    expect(run).toHaveBeenCalledTimes(1);
    await send({ to: "ann", body: "hello" }, { runId: "run 1" });
    await send({ to: "ann", body: "hi" }, { runId: "run 2" });
    await send({ to: "ann", body: "hi" }, { runId: "run 1", nth: 2 });
    await tool(engine, { name: "other_tool", run })({ to: "ann", body: "hi" }, { runId: "run 1" });
    expect(run).toHaveBeenCalledTimes(5);
    expect(send.toolName).toBe("send_mail");
  });

  it("has a stable key for the provider, and steps", async () => {
    const keys: string[] = [];
    let fails = true;
    const charge = tool(engine, {
      name: "charge",
      async run(args: { amount: number }, { key, step }) {
        keys.push(key);
        await step("reserve", () => args.amount);
        if (fails) throw new Error("down");
        return "charged";
      },
    });
    await expect(charge({ amount: 5 }, { runId: "r" })).rejects.toThrow("down");
    fails = false;
    expect(await charge({ amount: 5 }, { runId: "r" })).toBe("charged");
    await charge({ amount: 6 }, { runId: "r" });
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys[0]).toMatch(/^[\w-]{32}$/);
  });

  it("can be one step that is never called twice", async () => {
    let calls = 0;
    const send = tool(engine, {
      name: "send_once",
      once: { unknown: "never" },
      run: (_: { to: string }, { key }) => {
        calls++;
        expect(key).toMatch(/^[\w-]{32}$/);
        throw new Error("hung up");
      },
    });
    const codes: unknown[] = [];
    for (let i = 0; i < 2; i++)
      await send({ to: "ann" }, { runId: "r" }).catch((e: { code: string }) => codes.push(e.code));
    expect(codes).toEqual(["outcome_unknown", "outcome_unknown"]);
    expect(calls).toBe(1);
  });
});
