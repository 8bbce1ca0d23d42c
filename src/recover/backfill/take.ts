import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectedSource, OfAccount } from "../../handler/source.ts";
import type { Outcome } from "../../handler/outcome.ts";
import type { TakeOptions } from "../../handler/intake.ts";

/** Between two questions for what somebody else runs; each of them waits for it as well. */
const pauseMs = 200;

export interface Takes extends TakeOptions, OfAccount {
  /** How long to ask again for what is busy. */
  readonly patienceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Takes an event, and stays with it where somebody else runs it or nobody has room: without a worker there is nobody
 * who would run it later. `first` is what it was when it came, `last` what became of it.
 */
export async function takeUntilSettled(
  source: Pick<ConnectedSource<Record<string, unknown>, unknown>, "take">,
  body: Uint8Array,
  { patienceMs, signal, ...how }: Takes,
): Promise<{ readonly first: Outcome; readonly last: Outcome }> {
  const { outcome: first } = await source.take(body, how);
  const end = performance.now() + patienceMs;
  let last = first;
  while (last === "busy" && performance.now() < end) {
    await sleep(pauseMs, undefined, { signal });
    last = (await source.take(body, how)).outcome;
  }
  return { first, last };
}
