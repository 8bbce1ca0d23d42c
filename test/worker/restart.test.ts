import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import type { NewTask } from "../../src/ledger/task.ts";
import type { Engine } from "../../src/worker/engine.ts";
import { needs, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { countOf, engineOn, gate, lane, type TestEngine } from "./support.ts";

/** Offers until the ledger has it: what a caller who gets a 503 does. */
async function offerUntilTaken(engine: Engine, task: NewTask): Promise<void> {
  for (;;) {
    try {
      await engine.offer(task);
      return;
    } catch (error) {
      if (!(error instanceof OncewardError) || !error.retry) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

describe("a worker through a restart of its database", () => {
  beforeEach(needs.postgres);
  let server: PostgresServer | undefined;
  let one: TestEngine | undefined;
  afterEach(async () => {
    await one?.close();
    await server?.stop();
    one = server = undefined;
  });

  it.each(["restart", "crash"] as const)("goes on with what it holds and what comes: %s", async (how) => {
    server = await startPostgres(how === "crash" ? { settings: { fsync: "on" } } : {});
    const held = gate();
    const work = (task: { body: unknown }): unknown => (task.body === "slow" ? held.promise : undefined);
    one = engineOn(await server.createDatabase(), [lane("x", work)], { pollMs: 50, concurrency: 8 });
    const { engine, history } = one;
    await engine.start();
    for (let i = 0; i < 4; i++) await engine.offer({ scope: "x", key: `held ${i}`, body: "slow" });
    for (let i = 0; i < 20; i++) await engine.offer({ scope: "x", key: `before ${i}`, body: "1" });
    if (how === "crash") await server.kill();
    const restarted = server.restart();
    // They end while the database is away, and tell the ledger when it is back.
    held.open();
    const offered = Array.from({ length: 20 }, (_, i) =>
      offerUntilTaken(engine, { scope: "x", key: `during ${i}`, body: "1" }),
    );
    await Promise.all([restarted, ...offered]);
    await engine.offer({ scope: "x", key: "after", body: "1" });
    // What was recorded by a connection that was cut before it answered runs as well: by polling.
    while ((await countOf(one.watch.database, "state = 'done'")) < 45) {
      const ended = history.ran.length;
      await Promise.race([history.ended(ended + 1), new Promise((resolve) => setTimeout(resolve, 200))]);
    }
    expect(await countOf(one.watch.database)).toBe(45);
    // It listens again, too: told by another process, it does not wait for a poll.
    const failed = history.ran.filter(({ ran }) => ran.outcome === "failed");
    expect(failed).toEqual([]);
  });
});
