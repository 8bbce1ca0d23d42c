/** What a workload is made of, and what it can use while one schedule of it runs. */
import type { Op, Process } from "./process.ts";
import type { TaskIdentity } from "../../src/ledger/task.ts";
import type { Row, Rows } from "./rows.ts";
import { Provider, type ProviderOptions } from "./world.ts";

export interface Workload<App = unknown> {
  readonly name: string;
  /** Started at the beginning, and again some time after they died. */
  readonly processes: readonly string[];
  /** The application, as each process starts it. */
  boot(process: Process, scene: Scene<App>): App;
  /** Those outside of the processes: senders, callers, people. Each goes on until it has what it wants. */
  actors(scene: Scene<App>): Readonly<Record<string, () => Promise<void>>>;
  /** What is wrong in the end, beyond what is wrong in every workload. */
  check?(end: End): readonly Violation[];
  /** What a task must have brought about once it is done: rows of app.effect, and calls to providers. */
  owes?(task: Row): {
    readonly writes?: readonly string[];
    readonly calls?: readonly (readonly [provider: string, what: string])[];
  };
  /** How often a row may be there, where that is not once: it was asked for again. */
  repeats?(rows: Rows, name: string): number;
  /** What was acknowledged may be gone from the ledger, since somebody prunes it. */
  readonly forgets?: boolean;
  /** A task that never ends, or that waits for such a one. All others must end all the same, and soon. */
  hot?(task: Row): boolean;
  /** True when nothing is left to be done. Left out: every task has ended that is not hot. */
  settled?(rows: Rows): boolean;
  /** How many schedules of it are played, compared with others. Left out: 1; more where more of them have two deviations, less where each takes long. */
  readonly share?: number;
  /** Left out: all of them. */
  readonly faults?: readonly Fault[];
}

/** Stands in every payload, and must stand in no answer, no error, no reason, no log. */
export const personal = "4111-personal";

export type Fault =
  | "crash before"
  | "crash after"
  | "answer lost"
  | "cut off"
  | "pause before"
  | "pause after"
  | "slow";

export interface Violation {
  /** I1 to I10; or E: the workload itself went wrong. */
  readonly invariant: string;
  readonly what: string;
}

/** One request of a sender, and what came of it. */
export interface Delivery {
  readonly event: string;
  /** What the ledger knows it as. */
  readonly task?: TaskIdentity;
  readonly body: string;
  readonly to: string;
  /** Undefined: the connection broke before an answer came. */
  status?: number;
  answer?: string;
}

/** One run of a task's own code. */
export interface Started {
  readonly scope: string;
  readonly key: string;
  readonly attempt: number;
  readonly process: string;
}

/** How a schedule ended. */
export interface End {
  readonly rows: Rows;
  readonly deliveries: readonly Delivery[];
  readonly started: readonly Started[];
  readonly providers: ReadonlyMap<string, Provider>;
  /** Faults that were injected, in order. */
  readonly faults: readonly Fault[];
  /** Milliseconds from the last fault, or the last word of an actor, until everything was settled. */
  readonly recoveryMs: number;
  /** Everything that was said to the outside: answers, errors, reasons, logs. */
  readonly said: readonly string[];
}

/** Thrown to whoever waited for a process that died. */
export class Down extends Error {}

/** What a scene asks of the schedule that it is part of. */
export interface Stage<App> {
  submit(op: Op): void;
  running(): Process;
  app(process: string): { readonly process: Process; readonly app: App } | undefined;
  /** Runs code of a process; settles in the world outside. */
  enter<T>(process: Process, fn: () => Promise<T>): Promise<T>;
  sleep(ms: number): Promise<void>;
}

export class Scene<App> {
  readonly deliveries: Delivery[] = [];
  readonly started: Started[] = [];
  readonly providers = new Map<string, Provider>();
  readonly said: string[] = [];
  readonly #stage: Stage<App>;

  constructor(stage: Stage<App>) {
    this.#stage = stage;
  }

  provider(name: string, options: ProviderOptions): Provider {
    let provider = this.providers.get(name);
    if (!provider) {
      provider = new Provider(name, options, () => this.#stage.running());
      this.providers.set(name, provider);
    }
    return provider;
  }

  /** Has the application of a process do something. Throws Down where the process is dead, or dies before it answers. */
  async call<T>(who: string, what: string, process: string, fn: (app: App) => Promise<T>): Promise<T> {
    await this.act(who, `${what} (to ${process})`);
    const up = this.#stage.app(process);
    if (!up) throw new Down(`${process} is down`);
    return this.#stage.enter(up.process, () => fn(up.app));
  }

  /** The same until a process has answered, each time to the next one. */
  async callAny<T>(
    who: string,
    what: string,
    processes: readonly string[],
    fn: (app: App) => Promise<T>,
  ): Promise<T> {
    for (let i = 0; ; i++) {
      try {
        return await this.call(who, i === 0 ? what : `${what} again`, processes[i % processes.length]!, fn);
      } catch (error) {
        if (!(error instanceof Down)) throw error;
        await this.sleep(1_000);
      }
    }
  }

  /** Something that somebody outside of the processes does, at a moment that the scheduler chooses. */
  act(who: string, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stage.submit({
        process: undefined,
        who,
        kind: "act",
        what,
        silent: false,
        succeed: () => resolve(),
        fail: reject,
      });
    });
  }

  sleep(ms: number): Promise<void> {
    return this.#stage.sleep(ms);
  }
}
