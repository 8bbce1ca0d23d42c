import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOnce } from "onceward";
import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { describeWith } from "../support/postgres.ts";
import { Mortal } from "./deaths.ts";
import { threeSteps } from "./three-steps.ts";

describeWith("newest", "SIGKILL of a worker at every await of a job of three steps", (fresh) => {
  let pool: pg.Pool;
  let program: Mortal;
  const calls: string[] = [];
  const effects = new Map<string, number>();
  /** Honours keys, and counts what it was asked for. */
  const provider = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"]);
    calls.push(key);
    effects.set(key, (effects.get(key) ?? 0) + (effects.has(key) ? 0 : 1));
    response.end(request.url);
  });
  beforeAll(async () => {
    program = await Mortal.of(new URL("three-steps.ts", import.meta.url));
    pool = new pg.Pool({ connectionString: fresh().url });
    await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  });
  afterAll(async () => {
    await pool?.end();
    provider.closeAllConnections();
    await new Promise((resolve) => provider.close(resolve));
  });

  it("records no step twice and loses nothing", async () => {
    const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
    const nameOf = (n: number): string => `three-steps-${n}`;
    const writer = createOnce({ database: pool });
    await writer.engine.ready();
    await pool.query("create table written (task text)");
    // Every time a step becomes done, or one that is done is touched.
    await pool.query("create table finished (scope text, name text)");
    await pool.query(`create function finish() returns trigger language plpgsql as $$ begin
        insert into finished values (new.scope, new.name); return new; end $$`);
    await pool.query(`create trigger finish after insert or update on onceward.step
        for each row when (new.state = 'done') execute function finish()`);

    const record = (n: number) =>
      writer.engine.ledger.record({
        scope: `job/${nameOf(n)}`,
        key: "task",
        body: JSON.stringify(nameOf(n)),
      });
    // Each life has a task of its own, which is there before it.
    const recorded: number[] = [];
    const points = await program.killEverywhere({
      before: (n) => (recorded.push(n), record(n)),
      args: (n) => [fresh().url, nameOf(n), url],
    });

    const { rows: left } = await pool.query(
      "select count(*)::int as n from onceward.task where state = 'running'",
    );
    // Their leases end; whoever is there goes on.
    await pool.query("update onceward.task set due_at = clock_timestamp() where state = 'running'");
    const survivor = createOnce({ database: pool, pollMs: 50 });
    for (const n of recorded) threeSteps(survivor, nameOf(n), url);
    await survivor.start();
    await vi.waitFor(
      async () => {
        const { rows } = await pool.query("select distinct state from onceward.task");
        expect(rows).toEqual([{ state: "done" }]);
      },
      { timeout: 60_000, interval: 100 },
    );
    await survivor.stop();

    const tasks = recorded.length;
    const finished = (await pool.query("select scope, name, count(*)::int as n from finished group by 1, 2"))
      .rows;
    const written = (await pool.query("select task, count(*)::int as n from written group by 1")).rows;
    console.log(
      `${points} points to die at, ${tasks} tasks: ${left[0].n} left running, all done; ${finished.length} steps recorded, ` +
        `${finished.filter(({ n }) => n > 1).length} of them twice; ${written.length} rows written, ` +
        `${written.filter(({ n }) => n > 1).length} of them twice; ${calls.length} calls had ${effects.size} effects`,
    );
    expect(points).toBeGreaterThan(20);
    expect(left[0].n).toBeGreaterThan(5);
    expect(finished).toHaveLength(3 * tasks);
    expect(finished.filter(({ n }) => n !== 1)).toEqual([]);
    expect(written).toHaveLength(tasks);
    expect(written.filter(({ n }) => n !== 1)).toEqual([]);
    expect(effects.size).toBe(2 * tasks);
    const { rows: results } = await pool.query("select value from onceward.result");
    expect(results.map(({ value }) => (JSON.parse(value) as string[]).toSpliced(1, 1))).toEqual(
      Array.from({ length: tasks }, () => ["/reserve", "/charge"]),
    );
  }, 300_000);
});
