import { createOnce } from "onceward";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type RunningWorld, startWorld } from "../../examples/agent/world.ts";
import { Mortal } from "../step/deaths.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("newest", "examples/agent, killed between any two awaits and started again", (fresh) => {
  let pool: pg.Pool;
  let world: RunningWorld;
  let program: Mortal;
  beforeAll(async () => {
    program = await Mortal.of(new URL("../../examples/agent/main.ts", import.meta.url));
    world = await startWorld();
    pool = new pg.Pool({ connectionString: fresh().url });
    await createOnce({ database: pool }).engine.ready();
  });
  afterAll(async () => {
    await pool?.end();
    await world?.close();
  });
  /** Time passes, and the claims of the dead run out. */
  const leasesEnd = () =>
    pool.query("update onceward.task set due_at = clock_timestamp() where state = 'running' returning key");

  it("always ends with one mail", async () => {
    const env = { DATABASE_URL: fresh().url, API_URL: world.api, SMTP_URL: world.smtp };
    const runOf = (n: number): string => `run-${n}`;
    const started: string[] = [];
    const points = await program.killEverywhere({
      before: async (n) => void started.push(runOf(n)),
      args: (n) => [runOf(n)],
      env,
    });
    const { rowCount: interrupted } = await leasesEnd();
    const sentBefore = world.mails.length;
    expect(await program.live({ args: () => started, env }, 0)).toBe("ended");
    // Once more, as an agent does that has forgotten what it did.
    expect(await program.live({ args: () => started, env }, 0)).toBe("ended");

    const { rows: tasks } = await pool.query(
      "select state, count(*)::int as n from onceward.task group by 1",
    );
    const calls = [...world.leads.values()].reduce((sum, n) => sum + n, 0);
    console.log(
      `${points} points to die at, ${started.length} runs: ${interrupted} interrupted, all done; ${sentBefore} mails sent ` +
        `before the agents were started again, ${world.mails.length} in the end, ${world.mails.length - new Set(world.mails).size} ` +
        `twice; ${world.leads.size} leads in ${calls} calls`,
    );
    expect(points).toBeGreaterThan(25);
    expect(interrupted).toBeGreaterThan(20);
    expect(tasks).toEqual([{ state: "done", n: started.length }]);
    expect(world.mails).toHaveLength(started.length);
    expect(new Set(world.mails).size).toBe(started.length);
    expect(world.leads.size).toBe(started.length);
  }, 300_000);

  it("always ends with one mail, however often one run is killed", async () => {
    const env = { DATABASE_URL: fresh().url, API_URL: world.api, SMTP_URL: world.smtp };
    const before = world.mails.length;
    // Each life goes on behind the last finished step of the one before, and is killed a little later.
    let killed = 0;
    while ((await program.live({ args: () => ["often"], env }, 10 + 2 * killed)) === "killed") {
      killed++;
      await leasesEnd();
    }
    console.log(`killed ${killed} times, ${world.mails.length - before} mail`);
    expect(killed).toBeGreaterThan(5);
    expect(world.mails).toHaveLength(before + 1);
  }, 120_000);
});
