import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PGliteLike, pgliteDatabase } from "../../src/database/pglite.ts";
import { Engine } from "../../src/worker/engine.ts";
import { createPglite } from "../support/pglite.ts";
import { countOf, engineOn, gate, lane, noPoll, type TestEngine } from "./support.ts";

describe("a worker on PGlite, where one session serves everybody", () => {
  let db: PGlite;
  const open: TestEngine[] = [];
  beforeAll(async () => {
    db = await createPglite();
    await db.exec("create table effect (key text)");
    await new Engine(pgliteDatabase(db as unknown as PGliteLike<unknown>)).ready();
  });
  afterAll(async () => {
    for (const one of open) await one.close();
    await db.close();
  });
  const start = async (
    ...rest: Parameters<typeof engineOn> extends [unknown, ...infer Others] ? Others : never
  ) => {
    const made = engineOn(pgliteDatabase(db as unknown as PGliteLike<unknown>), ...rest);
    open.push(made);
    await made.engine.start();
    return made;
  };

  it("runs what is offered, also from inside other tasks", async () => {
    const { engine, history } = await start(
      [
        lane("p1", async (task) => {
          if (task.key.length < 3) await engine.offer({ scope: "p1", key: `${task.key}+`, body: "1" });
        }),
      ],
      { pollMs: noPoll },
    );
    await Promise.all(
      Array.from({ length: 9 }, (_, i) => engine.offer({ scope: "p1", key: `${i}`, body: "1" })),
    );
    await history.ended(27);
    expect(await countOf(engine.database, "scope = 'p1' and state = 'done'")).toBe(27);
  });

  it("goes on beside transactions that tasks hold open for longer than a lease", async () => {
    const inside = gate();
    const { engine, history, watch } = await start(
      [
        lane("p2", (task, run) =>
          task.key === "long"
            ? engine.database.transaction(async (_tx, ledger) => {
                await ledger.query("insert into effect values ('long')");
                inside.open();
                // Two leases: renewals wait for the transaction to end.
                await new Promise((resolve) => setTimeout(resolve, 600));
                run.signal.throwIfAborted();
              })
            : undefined,
        ),
      ],
      { leaseMs: 300, pollMs: noPoll },
    );
    await engine.offer({ scope: "p2", key: "long", body: "1" });
    await inside.promise;
    await engine.offer({ scope: "p2", key: "beside", body: "1" });
    await history.ended(2);
    expect(history.outcomes()).toEqual(["done", "done"]);
    expect(watch.count("complete_many")).toBeGreaterThan(0);
    const { rows } = await db.query("select key from effect");
    expect(rows).toEqual([{ key: "long" }]);
  });

  it("stops, and hands back what has not ended", async () => {
    const one = await start([lane("p3", () => new Promise(() => {}))], { pollMs: noPoll });
    await one.engine.offer({ scope: "p3", key: "1", body: "1" });
    await one.engine.stop({ graceMs: 1 });
    expect(await countOf(one.engine.database, "scope = 'p3' and state = 'waiting' and tries = 0")).toBe(1);
  });
});
