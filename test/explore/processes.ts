/** The processes of a schedule: they start, are stopped and go on, die and are started again. */
import { holdBack, outside } from "./answer.ts";
import { leaseMs, restartMs } from "./durations.ts";
import { Process } from "./process.ts";
import { Down } from "./scene.ts";
import type { VirtualTime } from "./virtual-time.ts";

interface Up<App> {
  readonly process: Process;
  readonly app: App;
}

export interface Surroundings<App> extends Pick<Process, "submit" | "abandon"> {
  readonly time: VirtualTime;
  boot(process: Process): App;
  /** Does something once the code that runs has come to rest. */
  next(act: () => void): void;
}

export class Processes<App> {
  readonly #around: Surroundings<App>;
  readonly #up = new Map<string, Up<App>>();
  readonly #starts = new Map<string, number>();
  /** Whoever waits for something that a process does for them. */
  readonly #waiters = new Map<Process, Set<(error: Error) => void>>();

  constructor(around: Surroundings<App>) {
    this.#around = around;
  }

  get(name: string): Up<App> | undefined {
    return this.#up.get(name);
  }

  all(): Process[] {
    return Array.from(this.#up.values(), ({ process }) => process);
  }

  /** Those who were stopped for longer than the lease. */
  resumable(): Process[] {
    return this.all().filter(({ paused, pausedAt }) => paused && this.#around.time.now >= pausedAt + leaseMs);
  }

  boot(name: string): void {
    const { time, submit, abandon } = this.#around;
    const start = (this.#starts.get(name) ?? 0) + 1;
    this.#starts.set(name, start);
    const process = new Process(name, start, { submit, abandon });
    time.run(process, () => {
      this.#up.set(name, { process, app: this.#around.boot(process) });
    });
  }

  /** Nothing of it runs any more. */
  die(process: Process): void {
    process.alive = false;
    this.#up.delete(process.name);
  }

  /** Who waited for it is told, and it is started again in a while. */
  startAgain(died: Process): void {
    const { name } = died;
    const { time, next } = this.#around;
    time.setTimer(outside, restartMs, () => next(() => this.boot(name)));
    for (const tell of this.#waiters.get(died) ?? []) this.#tell(() => tell(new Down(`${name} died`)));
  }

  pause(process: Process): void {
    process.paused = true;
    process.pausedAt = this.#around.time.now;
  }

  resume(process: Process): void {
    process.paused = false;
    const { held } = process;
    process.held = undefined;
    if (held) this.#around.time.run(process, held);
  }

  /** Runs code of a process; settles in the world outside. */
  enter<T>(process: Process, fn: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(process) ?? new Set();
      this.#waiters.set(process, waiters);
      waiters.add(reject);
      const settle = (tell: () => void): void => {
        waiters.delete(reject);
        this.#tell(tell);
      };
      const begin = (): void => {
        fn().then(
          (value) => settle(() => resolve(value)),
          (error: Error) => settle(() => reject(error)),
        );
      };
      this.#around.next(() => {
        if (process.paused) holdBack(process, begin);
        else if (process.alive) this.#around.time.run(process, begin);
      });
    });
  }

  /** Tells the world outside, whose code must not run as a part of the process that told it. */
  #tell(tell: () => void): void {
    this.#around.next(() => this.#around.time.run(outside, tell));
  }
}
