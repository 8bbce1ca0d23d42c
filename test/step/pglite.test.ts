import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runAction, takeAction } from "../../src/action/run.ts";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { Engine } from "../../src/worker/engine.ts";
import { createPglite } from "../support/pglite.ts";
import { fakeClock } from "../support/clock.ts";

describe("steps on one session for everybody (PGlite)", () => {
  let db: PGlite;
  beforeAll(async () => {
    db = await createPglite();
    await db.exec("create table written (n int)");
  });
  afterAll(() => db?.close());

  it("are kept, also beside each other and beside an open transaction", async () => {
    const engine = new Engine(pgliteDatabase(db));
    const value = await runAction(engine, "all kinds", async ({ step }) => {
      const [a, b, c] = await Promise.all([
        step("a", () => 1),
        step.transaction("b", async (tx) => {
          await tx.query("insert into written values (2)");
          return 2;
        }),
        step("c", { unknown: "never" }, () => 3),
      ]);
      return [a, b, c];
    });
    expect(value).toEqual([1, 2, 3]);
    expect((await db.query("select n from written")).rows).toEqual([{ n: 2 }]);
  });

  it("sleep, and go on", async () => {
    const engine = new Engine(pgliteDatabase(db));
    await engine.ready();
    const clock = await fakeClock(engine.database);
    const act = () => takeAction(engine, "sleeps", ({ step }) => step.sleep("pause", "1 hour"));
    expect(await act()).toEqual({ outcome: "waiting" });
    await clock.advance(3_600_000);
    expect(await act()).toEqual({ outcome: "done", value: undefined });
  });
});
