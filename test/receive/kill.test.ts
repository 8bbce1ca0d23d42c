import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { type App, event, openApp, type StripeEvent } from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";
import { program } from "../support/program.ts";
import type { DeathPoint, Order } from "./child-server.ts";
import { sender } from "./http.ts";

const file = await program(new URL("child-server.ts", import.meta.url));

// Processes are started and killed one after another; the limit is for hangs.
vi.setConfig({ testTimeout: 180_000 });

describeWith("newest", "kill -9 of the process", (database) => {
  let app: App;
  let children: ChildProcess[] = [];
  const { send, close } = sender(64);

  beforeAll(async () => {
    app = await openApp(database().url);
    await app.engine.ready();
  });
  afterEach(() => {
    for (const child of children) child.kill("SIGKILL");
    children = [];
  });
  afterAll(async () => {
    close();
    await app?.close();
  });

  /** Servers, one after another; the next one starts in advance, and waits for its order. */
  function servers(answer: Order["answer"]): () => Promise<{ child: ChildProcess; port: number }> {
    const start = (): ChildProcess => {
      const child = spawn(process.execPath, [file], {
        stdio: ["ignore", "inherit", "inherit", "ipc"],
      });
      children.push(child);
      return child;
    };
    let upcoming = start();
    return async () => {
      const child = upcoming;
      child.send({ url: database().url, answer } satisfies Order);
      const [port] = (await once(child, "message")) as [number];
      upcoming = start();
      return { child, port };
    };
  }

  /** Sends what the sender has no 2xx for, until it has one for each. */
  async function deliverAll(port: number, events: readonly StripeEvent[]): Promise<void> {
    await Promise.all(
      events.map(async (one) => {
        while ((await send(port, one)).status !== 200) await wait(20);
      }),
    );
  }

  async function expectOneEffectEach(events: readonly StripeEvent[]): Promise<void> {
    for (const { id } of events) {
      await app.settled(id);
      expect(await app.effectsOf(id)).toEqual(["done"]);
      expect(await app.stateOf("stripe", id)).toBe("done");
    }
  }

  const points: DeathPoint[] = ["on arrival", "before it writes", "after it wrote", "before the answer"];

  it.each(["queued", "inline"] as const)(
    "at each point of a request, then redelivery: one effect, nothing lost (%s)",
    async (answer) => {
      const next = servers(answer);
      const events: StripeEvent[] = [];
      for (const point of points) {
        const { child, port } = await next();
        const ended = once(child, "exit");
        const sent = event("invoice.paid", {
          data: { object: { id: `in_${points.indexOf(point)}_${answer}`, die: point } },
        });
        events.push(sent);
        const first = await send(port, sent, { "x-die": point });
        const [, signal] = (await ended) as [unknown, string];
        expect(signal).toBe("SIGKILL");
        // A process that died in the handler had answered before only if the event was safe in the ledger.
        expect(first.status === 0 || (answer === "queued" && first.outcome === "accepted")).toBe(true);
        if (first.status === 200) expect(await app.stateOf("stripe", sent.id)).toBeDefined();
      }
      const { port } = await next();
      await deliverAll(port, events);
      await expectOneEffectEach(events);
    },
  );

  it.each(["queued", "inline"] as const)(
    "at any time under load, then redelivery: one effect, nothing lost (%s)",
    async (answer) => {
      const rounds = 3;
      const next = servers(answer);
      const events: StripeEvent[] = [];
      const open = new Set<StripeEvent>();
      for (let round = 0; round < rounds; round++) {
        const { child, port } = await next();
        const ended = once(child, "exit");
        const fresh = Array.from({ length: 40 }, () => event("invoice.paid"));
        events.push(...fresh);
        for (const one of fresh) open.add(one);
        let answered = 0;
        // Somewhere in the middle of it all: after so many answers, and some time more.
        const deathAfter = Math.floor(Math.random() * 30);
        const killed = wait(Math.random() * 20);
        await Promise.all(
          [...open].map(async (one) => {
            const { status } = await send(port, one);
            if (status === 200) open.delete(one);
            if (++answered === deathAfter + 1) await killed.then(() => child.kill("SIGKILL"));
          }),
        );
        child.kill("SIGKILL");
        await ended;
      }
      const { port } = await next();
      await deliverAll(port, [...open]);
      await expectOneEffectEach(events);
    },
  );
});
