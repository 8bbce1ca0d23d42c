/** One event a thousand times at once, over HTTP, while others want to get through. */
import { setTimeout as wait } from "node:timers/promises";
import type { Cell, Measured } from "../cell.ts";
import { withClient } from "../database.ts";
import { listen, plainListener } from "../server.ts";
import { percentile } from "../statistics.ts";
import { startSenders, type Stormed, type Unrelated } from "../storm-load.ts";
import type { Variant } from "../variant.ts";

const DELIVERIES = 1_000;
/** Unrelated events a second: far below what anybody here can do. */
const RATE = 100;

/** What a storm was like. Times are those of the unrelated events that were due while it lasted. */
export interface Storm {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly unrelated: number;
  /** From the first connection until the last answer. */
  readonly lastedMs: number;
  /** Answers to the one event, by status. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** Nothing was delivered to this process before the first storm. */
export async function storm(variant: Variant, cell: Cell): Promise<Measured> {
  let stormId = "";
  let handled = 0;
  const running = await variant.open({
    ...cell,
    mode: "handle",
    started: () => undefined,
    finished: () => handled++,
    work: (id) => (id === stormId && cell.handlerMs ? wait(cell.handlerMs) : undefined),
  });
  await running.start?.();
  await running.warmUp?.();
  const { server, port } = await listen(
    running.listener ?? plainListener((event, bytes) => running.enqueue(event, bytes)),
  );
  const senders = startSenders({ port, deliveries: DELIVERIES, rate: RATE });

  let sent = 0;
  const once = async (): Promise<Storm> => {
    stormId = await senders.prepare();
    const { stormed, unrelated } = await senders.storm();
    sent += 1 + unrelated.ids.length;
    checkAnswers(unrelated);
    if (variant.store !== "none") {
      while (handled < sent) await wait(5);
      while ((await running.unfinished()) > 0) await wait(5);
      await checkEffects(cell, [stormId, ...unrelated.ids]);
    }
    return figures(stormed, unrelated);
  };
  const storms = [await once(), await once()] as const;

  senders.close();
  server.closeAllConnections();
  server.close();
  await running.close();
  return { storms, p50Ms: storms[0].p50Ms, p99Ms: storms[0].p99Ms };
}

/** A figure proves nothing unless every unrelated event had a good answer, */
function checkAnswers({ statuses }: Unrelated): void {
  const bad = Object.keys(statuses).filter((status) => status !== "200");
  if (bad.length > 0) throw new Error(`answers to unrelated events: ${JSON.stringify(statuses)}`);
}

/** and every event its one effect. */
async function checkEffects({ database }: Cell, ids: readonly string[]): Promise<void> {
  const effects = await withClient(database, async (client) => {
    const { rows } = await client.query("select count(*) from bench_order where id = any($1)", [ids]);
    return Number(rows[0].count);
  });
  if (effects !== ids.length) throw new Error(`${effects} effects of ${ids.length} events`);
}

function figures({ began, ended, statuses }: Stormed, { answered }: Unrelated): Storm {
  const times = answered.filter(({ due }) => due >= began && due <= ended).map(({ ms }) => ms);
  return {
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    maxMs: Math.max(...times),
    unrelated: times.length,
    lastedMs: ended - began,
    statuses,
  };
}
