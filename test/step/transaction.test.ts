import type pg from "pg";
import { expect, it, vi } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import { runSteps } from "../../src/step/run.ts";
import type { Step } from "../../src/step/step.ts";
import { Engine } from "../../src/worker/engine.ts";
import type { Lane } from "../../src/worker/lane.ts";
import { gate } from "../worker/support.ts";
import { describeSteps, scope } from "./support.ts";

describeSteps("a transaction step", (bench) => {
  const credits = async (account: string): Promise<number> => {
    const { rows } = await bench().database.query(
      "select count(*)::int as n from credit where account = $1::text",
      [account],
    );
    return rows[0]?.["n"] as number;
  };
  const credit = "insert into credit (account) values ($1)";

  it("commits its result together with the rows, and is not run again", async () => {
    await bench().database.query("create table if not exists credit (account text)");
    await bench().dies("commit", async (step, die) => {
      await step.transaction("credit", async (tx) => {
        await tx.query(credit, ["commit"]);
        return "credited";
      });
      await die();
    });
    expect(await credits("commit")).toBe(1);
    const again = vi.fn<() => Promise<string>>();
    const ran = await bench().attempt("commit", (step) => step.transaction("credit", again));
    expect(ran).toEqual({ outcome: "done", result: '"credited"' });
    expect(again).not.toHaveBeenCalled();
    expect(await credits("commit")).toBe(1);
  });

  it("leaves nothing where its process dies or its function throws before the commit", async () => {
    await bench().database.query("create table if not exists credit (account text)");
    let fails = true;
    const job: Parameters<ReturnType<typeof bench>["attempt"]>[1] = (step) =>
      step.transaction("credit", async (tx, { key }) => {
        expect(key).toMatch(/^[\w-]{32}$/);
        await tx.query(credit, ["rollback"]);
        if (fails) throw new Error("no");
      });
    expect(await bench().attempt("rollback", job)).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(await credits("rollback")).toBe(0);
    expect(await bench().steps("rollback")).toEqual([]);
    fails = false;
    expect(await bench().attempt("rollback", job)).toMatchObject({ outcome: "done" });
    expect(await credits("rollback")).toBe(1);
  });

  it("does not commit its rows once more where the answer to the first commit was lost", async () => {
    const { database } = bench();
    await database.query("create table if not exists credit (account text)");
    let cut = true;
    const engine = new Engine({
      ...database,
      async transaction(...args) {
        const result = await database.transaction(...args);
        if (!cut) return result;
        cut = false;
        throw new OncewardError("database_unavailable", "cut off while the commit was answered");
      },
    });
    const errors: unknown[] = [];
    const lane: Lane = {
      name: scope,
      run: (task, run) =>
        runSteps(engine, task, run, async (tools) => {
          const { step } = tools({}) as { step: Step<pg.PoolClient> };
          for (let i = 0; i < 2; i++) {
            const call = step.transaction("credit", async (tx) => void (await tx.query(credit, ["answer"])));
            errors.push(await call.catch((error: unknown) => error));
          }
          throw new Error("tired");
        }),
    };
    const { leaseMs, worker, verbs } = engine.ledger;
    await engine.ledger.record({ scope, key: "answer" });
    const claimed = await verbs.claim({ scope, key: "answer" }, { leaseMs, worker });
    if (claimed.outcome !== "claimed") throw new Error("not claimed");
    expect(await engine.runHere(lane, claimed.task)).toMatchObject({ outcome: "failed", state: "waiting" });
    expect(errors).toMatchObject([{ code: "database_unavailable" }, { code: "transaction_aborted" }]);
    expect(await credits("answer")).toBe(1);
    const again = vi.fn<() => void>();
    const ran = await bench().attempt("answer", (step) => step.transaction("credit", again));
    expect(ran).toMatchObject({ outcome: "done" });
    expect(again).not.toHaveBeenCalled();
  });

  it("leaves connections to the ledger, so that leases are renewed", async () => {
    const { pool } = bench();
    const room = pool - 2;
    const inside = new Set<string>();
    let most = 0;
    const all = gate();
    const goOn = gate();
    const jobs = Array.from({ length: pool + 2 }, (_, i) =>
      bench().attempt(`room ${i}`, (step) =>
        step.transaction("wait", async () => {
          inside.add(`room ${i}`);
          most = Math.max(most, inside.size);
          if (inside.size === room) all.open();
          await goOn.promise;
          inside.delete(`room ${i}`);
        }),
      ),
    );
    await all.promise;
    const looked = await Promise.all([...inside].map((key) => bench().look(key)));
    goOn.open();
    expect(looked.map((task) => task?.state)).toEqual(looked.map(() => "running"));
    for (const ran of await Promise.all(jobs)) expect(ran).toMatchObject({ outcome: "done" });
    expect(most).toBe(room);
  });

  it("does not commit the rows of an attempt that was taken over", async () => {
    await bench().database.query("create table if not exists credit (account text)");
    let goOn!: () => void;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    let begun!: () => void;
    const inside = new Promise<void>((resolve) => (begun = resolve));
    const zombie = bench().attempt("zombie", (step) =>
      step.transaction("credit", async (tx) => {
        await tx.query(credit, ["zombie"]);
        begun();
        await paused;
      }),
    );
    await inside;
    await bench().clock.advance(bench().engine.ledger.leaseMs + 1);
    await bench().attempt("zombie", (step) =>
      step.transaction("credit", async (tx) => void (await tx.query(credit, ["zombie"]))),
    );
    goOn();
    expect(await zombie).toMatchObject({ outcome: "lost" });
    expect(await credits("zombie")).toBe(1);
  });

  it("does not commit where a statement failed and its error was swallowed", async () => {
    await bench().database.query("create table if not exists credit (account text)");
    const ran = await bench().attempt("swallowed", (step) =>
      step.transaction("credit", async (tx) => {
        await tx.query(credit, ["swallowed"]);
        await tx.query("select 1 / 0").catch(() => undefined);
      }),
    );
    expect(ran).toMatchObject({ outcome: "failed", error: { code: "transaction_aborted" } });
    expect(await credits("swallowed")).toBe(0);
  });
});
