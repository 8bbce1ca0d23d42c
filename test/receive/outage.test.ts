import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { effect, event, openApp, type StripeEvent } from "../handler/support.ts";
import { type PostgresServer, skipUnless, startPostgres } from "../support/postgres.ts";
import { listen, sender, type Sent } from "./http.ts";

describe("a database that is stopped and started again under load", () => {
  let server: PostgresServer | undefined;
  beforeEach(async (context) => {
    await skipUnless(context, async () => (server ??= await startPostgres()));
  });
  afterAll(() => server?.stop());

  it.each(["queued", "inline"] as const)(
    "means 503 meanwhile, no lost event, and no restart of the process (%s)",
    async (answer) => {
      const database = server!;
      const app = await openApp(await database.createDatabase(), { leaseMs: 2_000, source: { answer } });
      app.billing.on("invoice.paid", { backoff: { baseMs: 10, capMs: 50 } }, ({ event: { id }, tx }) =>
        effect(tx, id),
      );
      await app.engine.start();
      const { server: http, port } = await listen(app.billing);
      const { send, close } = sender(16);

      let phase: "up" | "down" | "again" = "up";
      const seen: { phase: string; sent: Sent }[] = [];
      const events: StripeEvent[] = [];
      const enough = new AbortController();
      /** A sender: new events one after another, each until it has a 2xx. */
      const load = async (): Promise<void> => {
        while (!enough.signal.aborted) {
          const one = event("invoice.paid");
          events.push(one);
          for (;;) {
            const before = phase;
            const sent = await send(port, one);
            if (before === phase) seen.push({ phase, sent });
            if (sent.status === 200) break;
            await wait(10);
          }
        }
      };
      const senders = Array.from({ length: 16 }, load);
      const count = (of: string, status: number) =>
        seen.filter((one) => one.phase === of && one.sent.status === status).length;

      await expect.poll(() => count("up", 200), { timeout: 60_000 }).toBeGreaterThan(50);
      await database.kill();
      phase = "down";
      await expect.poll(() => count("down", 503), { timeout: 60_000 }).toBeGreaterThan(50);
      expect(count("down", 200)).toBe(0);
      await database.restart();
      phase = "again";
      await expect.poll(() => count("again", 200), { timeout: 60_000 }).toBeGreaterThan(50);
      enough.abort();
      await Promise.all(senders);

      // Nothing but these was ever said: a sender is told to come again, never that something is wrong with its event.
      const statuses = new Set(seen.map(({ sent }) => sent.status));
      expect([...statuses].filter((status) => ![200, 409, 503].includes(status))).toEqual([]);
      for (const { id } of events) {
        await app.settled(id);
        expect(await app.effectsOf(id)).toEqual(["done"]);
      }
      close();
      http.closeAllConnections();
      http.close();
      await app.close();
    },
  );
});
