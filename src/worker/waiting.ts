/** Tasks that this process has taken and that wait for a place, in a line for each lane. */
import type { Lane } from "./lane.ts";
import type { Lease } from "./lease.ts";
import { Line, type Standing } from "./line.ts";

interface InLane {
  readonly lane: Lane;
  readonly lease: Lease;
}

export class Waiting<T extends InLane & Standing<T>> implements Iterable<T> {
  readonly #lines = new Map<Lane, Line<T>>();

  add(one: T): void {
    let line = this.#lines.get(one.lane);
    if (!line) this.#lines.set(one.lane, (line = new Line()));
    line.add(one);
  }

  /** Does nothing where it has left already. */
  delete(one: T): void {
    this.#lines.get(one.lane)?.delete(one);
  }

  /**
   * Who has waited longest, of the lanes that may start one. Each end of a task asks: in one line for all, it would walk by
   * all that wait for a lane that is full, hundreds of them.
   */
  next(mayStart: (lane: Lane) => boolean): T | undefined {
    let next: T | undefined;
    for (const [lane, line] of this.#lines) {
      const { first } = line;
      if (first && (!next || first.lease.heldAt < next.lease.heldAt) && mayStart(lane)) next = first;
    }
    return next;
  }

  /** Lane by lane, from the first to the last. Whoever is just visited may leave. */
  *[Symbol.iterator](): Iterator<T> {
    for (const line of this.#lines.values()) yield* line;
  }

  /** The first of each lane and those behind it, as long as it is true of them. */
  *while(isTrue: (one: T) => boolean): Iterable<T> {
    for (const line of this.#lines.values()) {
      for (const one of line) {
        if (!isTrue(one)) break;
        yield one;
      }
    }
  }
}
