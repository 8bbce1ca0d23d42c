/** Events over HTTP, from a load generator in another process. */
import { setTimeout as wait } from "node:timers/promises";
import type { Cell, Measured } from "../cell.ts";
import { costMeter } from "../costs.ts";
import { withClient } from "../database.ts";
import { prepareLoad } from "../load.ts";
import { listen, plainListener } from "../server.ts";
import type { Mode, Running, Variant } from "../variant.ts";

/** How many events come again and again where duplicates are measured. */
const REPEATED = 1_000;

/** Verified, recorded once and answered; nobody runs them yet. */
export function receive(variant: Variant, cell: Cell): Promise<Measured> {
  return overHttp("receive", variant, cell);
}

/** Verified, recorded, answered, and handled: until every handler's row is committed and its task done. */
export function handle(variant: Variant, cell: Cell): Promise<Measured> {
  return overHttp("handle", variant, cell);
}

async function overHttp(mode: Mode, variant: Variant, cell: Cell): Promise<Measured> {
  const opening = performance.now();
  let handled = 0;
  const running = await variant.open({ ...cell, mode, started: () => undefined, finished: () => handled++ });
  const others = await running.unfinished();
  if (mode !== "receive") await running.start?.();
  const startMs = performance.now() - opening;

  const before = await recorded(mode, running, cell);
  const { server, port } = await listen(
    running.listener ?? plainListener((event, bytes) => running.enqueue(event, bytes)),
  );
  const { connections = 64, seconds, duplicates } = cell;
  /** Until every handler has run and the store knows. It is asked only then: to count costs it as much as to work. */
  const settled = async (events: number): Promise<void> => {
    while (handled < events) await wait(5);
    while ((await running.unfinished()) > others) await wait(5);
  };
  const { go, warm } = await prepareLoad({
    port,
    connections,
    seconds,
    ...(duplicates && { repeated: REPEATED }),
  });
  if (mode !== "receive") await settled(warm);
  const meter = await costMeter({
    ...(variant.store === "postgres" && { url: cell.database }),
    ...(cell.storePid && { pid: cell.storePid }),
  });

  const began = performance.now();
  const load = await go();
  if (mode !== "receive") await settled(warm + load.requests);
  const elapsed = mode === "receive" ? load.seconds : (performance.now() - began) / 1000;
  const costs = await meter.lap(load.requests);

  const refused = Object.entries(load.statuses).filter(([status]) => status !== "200");
  if (refused.length > 0) throw new Error(`answers: ${JSON.stringify(load.statuses)}`);
  const expected = duplicates ? REPEATED : load.requests + warm;
  const found = (await recorded(mode, running, cell)) - before;
  if (variant.store !== "none" && found !== expected) throw new Error(`${expected} sent, ${found} recorded`);

  await meter.close();
  server.closeAllConnections();
  server.close();
  await running.close();
  return {
    rate: load.requests / elapsed,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    costs,
    startMs,
    loadCpuUs: load.cpuUs,
  };
}

/** What the store has of the events: rows of handlers, or what waits for one. A figure without it proves nothing. */
async function recorded(mode: Mode, running: Running, { database }: Cell): Promise<number> {
  if (mode === "receive") return running.unfinished();
  return withClient(database, async (client) =>
    Number((await client.query("select count(*) from bench_order")).rows[0].count),
  );
}
