/** Jobs enqueued by this process and run in it: closed loop, backlog, and latency at a modest rate. */
import { setTimeout as wait } from "node:timers/promises";
import type { Cell, Measured } from "../cell.ts";
import { costMeter, type Meter } from "../costs.ts";
import { body, event, ids, type StripeEvent } from "../event.ts";
import { percentile } from "../statistics.ts";
import { haveBeenVacuumed } from "../steady.ts";
import type { Mode, Running, Variant } from "../variant.ts";

const CALLERS = 64;
/** Jobs a second where latency is measured: far below what anybody here can do. */
const MODEST_RATE = 50;

const template = event("evt");
const job = (id: string): StripeEvent => ({ ...template, id });

/** Each of 64 callers enqueues a job, waits until it has run, and enqueues the next. Until the store says done. */
export async function enqueueToDone(variant: Variant, cell: Cell): Promise<Measured> {
  const bench = await open(variant, cell, cell.workload === "steps" ? "steps" : "jobs");
  const loop = async (seconds: number): Promise<number> => {
    const until = performance.now() + seconds * 1000;
    let count = 0;
    const caller = async () => {
      while (performance.now() < until) {
        const id = bench.nextId();
        const ran = bench.ran(id);
        await bench.running.enqueue(job(id), body(id));
        await ran;
        count++;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    await bench.allDone();
    return count;
  };
  await loop(Math.min(1, cell.seconds / 2)); // warm
  const meter = await meterOf(variant, cell);
  const began = performance.now();
  const count = await loop(cell.seconds);
  const elapsed = (performance.now() - began) / 1000;
  const costs = await meter.lap(count);
  await close(bench.running, meter);
  return { rate: count / elapsed, costs, startMs: bench.startMs };
}

/** A backlog that is there when the worker starts: from the first handler's start until the store has none left. */
export async function drain(variant: Variant, cell: Cell): Promise<Measured> {
  const bench = await open(variant, cell, "jobs", { start: false });
  const count = Math.round((variant.backlog ?? 2_000) * Math.min(1, cell.seconds / 2));
  const backlog = Array.from({ length: count }, () => job(bench.nextId()));
  if (bench.running.enqueueMany) {
    for (let i = 0; i < count; i += 500) await bench.running.enqueueMany(backlog.slice(i, i + 500));
  } else {
    const rest = backlog.values();
    const caller = async () => {
      for (const one of rest) await bench.running.enqueue(one, body(one.id));
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
  }
  // The larger ones were seeded with statistics.
  if (variant.store === "postgres" && !cell.seed) await haveBeenVacuumed(cell.database);
  const meter = await meterOf(variant, cell);
  let began = 0;
  bench.onStart(() => (began ||= performance.now()));
  const all = Promise.all(backlog.map((one) => bench.ran(one.id)));
  await bench.running.start!();
  await all;
  await bench.allDone();
  const elapsed = (performance.now() - began) / 1000;
  const costs = await meter.lap(count);
  await close(bench.running, meter);
  return { rate: count / elapsed, costs };
}

/** From the call of enqueue until the handler starts, with little else to do. */
export async function latency(variant: Variant, cell: Cell): Promise<Measured> {
  const bench = await open(variant, cell, "jobs");
  const samples: number[] = [];
  const called = new Map<string, number>();
  bench.onStart((id) => samples.push(performance.now() - called.get(id)!));
  const run = async (seconds: number) => {
    const ran: Promise<unknown>[] = [];
    for (let i = 0; i < seconds * MODEST_RATE; i++) {
      const id = bench.nextId();
      ran.push(bench.ran(id));
      called.set(id, performance.now());
      ran.push(bench.running.enqueue(job(id), body(id)));
      await wait(1000 / MODEST_RATE);
    }
    await Promise.all(ran);
  };
  await run(1); // warm
  samples.length = 0;
  await run(cell.seconds);
  await close(bench.running);
  return { p50Ms: percentile(samples, 0.5), p99Ms: percentile(samples, 0.99) };
}

async function open(variant: Variant, cell: Cell, mode: Mode, { start = true } = {}) {
  const waiting = new Map<string, () => void>();
  let onStart: (id: string) => void = () => undefined;
  const opening = performance.now();
  const running = await variant.open({
    ...cell,
    mode,
    started: (id) => onStart(id),
    finished(id) {
      waiting.get(id)?.();
      waiting.delete(id);
    },
  });
  const others = await running.unfinished(); // that were put there to wait
  if (start) await running.start?.();
  return {
    running,
    async allDone() {
      while ((await running.unfinished()) > others) await wait(5);
    },
    startMs: performance.now() - opening,
    nextId: ids(),
    ran: (id: string) => new Promise<void>((resolve) => waiting.set(id, resolve)),
    onStart(listener: (id: string) => void) {
      onStart = listener;
    },
  };
}

function meterOf(variant: Variant, cell: Cell): Promise<Meter> {
  const url = variant.store === "postgres" ? { url: cell.database } : {};
  return costMeter({ ...url, ...(cell.storePid && { pid: cell.storePid }) });
}

async function close(running: Running, meter?: Meter): Promise<void> {
  await meter?.close();
  await running.close();
}
