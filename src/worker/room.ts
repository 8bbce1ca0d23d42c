import { AsyncLocalStorage } from "node:async_hooks";
import type { Database } from "../database/database.ts";
import type { Run } from "./lane.ts";

/** Places for a bounded number of callers; the others wait in line, for so long. */
export class Room {
  #free: number;
  readonly #line: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  /** Takes a place if one is free. */
  enter(): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    return true;
  }

  /** Takes a place as soon as one is free; false where that takes longer than `ms`. Left out: however long it takes. */
  enterWithin(ms?: number): Promise<boolean> {
    if (this.enter()) return Promise.resolve(true);
    if (ms === undefined) return new Promise((resolve) => this.#line.push(() => resolve(true)));
    if (ms <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const called = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(called), 1);
        resolve(false);
      }, ms);
      this.#line.push(called);
    });
  }

  leave(): void {
    const next = this.#line.shift();
    if (next) next();
    else this.#free++;
  }
}

/** Each transaction holds a connection; two are left for recording, renewing and completing. */
export function connectionsToUse({
  single,
  connections = 10,
}: Pick<Database, "single" | "connections">): number {
  return single ? 1 : Math.max(1, connections - 2);
}

/** Whoever has a place needs no second one: waiting for it, all would wait for each other. */
const inside = new AsyncLocalStorage<true>();

/**
 * Runs a transaction of a run, which has a place in the room meanwhile. To stand in line does not count against the
 * deadline. Where the run is given up and its connection with it (`abortable`), it leaves at once, even if its code
 * never ends.
 */
export async function withPlace<T>(
  room: Room | undefined,
  run: Run,
  abortable: boolean | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (!room || inside.getStore()) return work();
  await run.uncounted(room.enterWithin());
  const { signal } = run;
  let left = false;
  const leave = (): void => {
    if (!left) room.leave();
    left = true;
  };
  if (abortable) signal.addEventListener("abort", leave);
  try {
    run.throwIfAborted();
    return await inside.run(true, work);
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
}
