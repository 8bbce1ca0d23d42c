/** One fault, so many strikes, and what came of it. */
import { setTimeout as wait } from "node:timers/promises";
import type { Fault, FaultOptions } from "./fault.ts";

export interface Outcome {
  readonly fault: Fault;
  readonly strikes: number;
  readonly acknowledged: number;
  /** Answers that were no 2xx, by status; 0 where no answer came. */
  readonly answers: ReadonlyMap<number, number>;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** Events that nobody took for two minutes. */
  readonly refused: readonly string[];
  /** Of each strike: until a new event was taken, and all that was recorded before was done, in ms. */
  readonly recoveries: readonly number[];
}

export interface TryOptions extends FaultOptions {
  readonly times: number;
  readonly onProgress?: (strikes: number, note: string) => void;
}

/** A limit for hangs. Nothing here takes a tenth of it. */
const recoversWithinMs = 120_000;

export async function tryFault(fault: Fault, options: TryOptions): Promise<Outcome> {
  const { size, random, times, onProgress = () => {} } = options;
  const { stage, strike, close } = await fault.open(options);
  const { load, witness } = stage;
  const recoveries: number[] = [];
  try {
    load.start();
    for (let n = 0; n < times; n++) {
      onProgress(n, `${load.acknowledged.size} acknowledged`);
      // Any time in the course of things.
      await load.more(random.between(1, size.between));
      await wait(random.next() * 20);
      let began: number | undefined;
      const over = (): number => (began ??= performance.now());
      await strike(over);
      began = over();
      await witness.settled(recoversWithinMs, (left) => onProgress(n, `waiting for ${left} tasks`));
      await load.takenSince(began);
      recoveries.push(performance.now() - began);
    }
    await load.finish();
    await witness.drained(recoversWithinMs);
    for (const { ended, role } of stage.processes) if (ended) throw new Error(`a ${role} ended by itself`);
    const { lost, doubled } = await witness.judge(load.acknowledged);
    return {
      fault,
      strikes: times,
      acknowledged: load.acknowledged.size,
      answers: load.answers,
      lost,
      doubled,
      refused: [...load.refused],
      recoveries,
    };
  } finally {
    await close();
  }
}
