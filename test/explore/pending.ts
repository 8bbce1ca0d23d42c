/** What waits for the scheduler to let it happen. */
import type { Op } from "./process.ts";

export class Pending {
  readonly #ops: Op[] = [];
  /** After how many steps each came: what the last step brought goes first. */
  readonly #arrived = new Map<Op, number>();

  add(op: Op, steps: number): void {
    this.#ops.push(op);
    this.#arrived.set(op, steps);
  }

  remove(op: Op): void {
    this.#ops.splice(this.#ops.indexOf(op), 1);
    this.#arrived.delete(op);
  }

  /** Removes those for which it holds, and returns them. */
  removeAll(isOver: (op: Op) => boolean): Op[] {
    const over = this.#ops.filter(isOver);
    for (const op of over) this.remove(op);
    return over;
  }

  /** What is not worth a choice. */
  silent(): Op | undefined {
    return this.#ops.find((op) => op.silent && !op.process?.paused);
  }

  /** What came of the last step goes first: by default a process goes on until it waits. */
  ready(steps: number): Op[] {
    const isFresh = (op: Op): boolean => this.#arrived.get(op) === steps;
    const able = this.#ops.filter((op) => !op.process?.paused);
    return able.length < 2 ? able : [...able.filter(isFresh), ...able.filter((op) => !isFresh(op))];
  }
}
