/** What can stand in a line, in one at a time. */
export interface Standing<T> {
  before: T | undefined;
  after: T | undefined;
}

/**
 * A set in the order in which its members came, for members that come and go by the thousand each second. A `Set` is
 * copied whenever it has filled up, and a copy that has grown old keeps the next one alive, with all that its members
 * hold, until a full collection of garbage; of empty jobs that was a fifth of all they allocated. Who leaves a line
 * keeps nobody alive.
 */
export class Line<T extends Standing<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;

  get isEmpty(): boolean {
    return this.#first === undefined;
  }

  get first(): T | undefined {
    return this.#first;
  }

  add(one: T): void {
    one.before = this.#last;
    if (this.#last) this.#last.after = one;
    else this.#first = one;
    this.#last = one;
  }

  /** Does nothing where it has left already. */
  delete(one: T): void {
    const { before, after } = one;
    if (!before && this.#first !== one) return;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    one.before = undefined;
    one.after = undefined;
  }

  /** From the first to the last. Whoever is just visited may leave. */
  *[Symbol.iterator](): Iterator<T> {
    for (let one = this.#first; one;) {
      const { after } = one;
      yield one;
      one = after;
    }
  }
}
