/** Time that stands still until the scheduler moves it, and the timers of the explored processes. See globals.ts. */

/** Whoever timers belong to: a process, or the world around the processes. */
export interface Owner {
  /** False once it has crashed: nothing of it runs any more. */
  readonly alive: boolean;
  /** True while it is stopped: its timers wait. */
  readonly paused: boolean;
}

interface Timer {
  readonly owner: Owner;
  readonly fn: () => void;
  readonly every: number | undefined;
  at: number;
}

/** Some whole second, so that printed times are easy to read. */
const startMs = Date.UTC(2026, 0, 1);

export class VirtualTime {
  /** Milliseconds since 1970. */
  now = startMs;
  #running: Owner | undefined;
  readonly #timers = new Set<Timer>();
  readonly #immediates: { owner: Owner; fn: () => void }[] = [];

  /** Milliseconds since the schedule began. */
  get elapsed(): number {
    return this.now - startMs;
  }

  /** Whose code runs now; undefined between steps. */
  get running(): Owner | undefined {
    return this.#running;
  }

  reset(): void {
    this.now = startMs;
    this.#running = undefined;
    this.#timers.clear();
    this.#immediates.length = 0;
  }

  /** Runs code of this owner; `rest` lets all happen that follows from it without waiting for somebody else. */
  run(owner: Owner, fn: () => void): void {
    if (this.#running) throw new Error("Somebody else runs, and has not come to rest.");
    this.#running = owner;
    fn();
  }

  rest(): Promise<void> {
    return new Promise((resolve) => this.#drain(resolve));
  }

  /** Before somebody else runs, or the real database: until what runs, if anything, has come to rest. */
  async quiet(): Promise<void> {
    if (this.#running) await this.rest();
  }

  /**
   * After every promise that can go on has gone on: ticks come when no microtask is left. A turn of the event loop
   * would say the same, at the price of several system calls.
   */
  #drain(done: () => void): void {
    process.nextTick(() => {
      // One process runs at a time, so what is queued here is this owner's.
      const next = this.#immediates.shift();
      if (next) {
        if (next.owner.alive) next.fn();
        // From here, a tick would come before the promises that this lets go on.
        queueMicrotask(() => this.#drain(done));
      } else {
        this.#running = undefined;
        done();
      }
    });
  }

  /** Runs once no promise of this owner can go on any more. */
  addImmediate(owner: Owner, fn: () => void): void {
    this.#immediates.push({ owner, fn });
  }

  /** False for what is no timer of ours. */
  clearTimer(timer: unknown): boolean {
    return this.#timers.delete(timer as Timer);
  }

  setTimer(owner: Owner, ms: number, fn: () => void, every?: number): object {
    const timer: Timer = { owner, fn, every, at: this.now + Math.max(1, ms || 0) };
    this.#timers.add(timer);
    return timer;
  }

  /** The time of the next timer, if any; `unpaused` leaves out those of stopped processes. */
  nextAt(): number | undefined {
    return this.#next()?.at;
  }

  /** Fires one timer that is due; false where none is. */
  fireDue(): boolean {
    const timer = this.#next();
    if (!timer || timer.at > this.now) return false;
    // After a pause an interval fires once, as in Node.
    if (timer.every === undefined) this.#timers.delete(timer);
    else timer.at = this.now + timer.every;
    this.run(timer.owner, timer.fn);
    return true;
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (!timer.owner.alive) this.#timers.delete(timer);
      else if (!timer.owner.paused && (!next || timer.at < next.at)) next = timer;
    }
    return next;
  }
}
