/** Engines over a database whose statements a test can count, hold back and answer late. */
import type { Database, Queryable } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import { Engine, type EngineOptions } from "../../src/worker/engine.ts";
import type { Finish, Lane, Ran, Run } from "../../src/worker/lane.ts";

export const done: Finish = { finish: "complete" };

/** A promise that the test settles. */
export interface Gate<T = void> {
  readonly promise: Promise<T>;
  open(value: T): void;
}

export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void;
  const promise = new Promise<T>((resolve) => (open = resolve));
  return { promise, open };
}

/** Resolves as soon as `condition` holds; looked at after every `tell`. */
export class Watcher {
  readonly #waiting = new Set<() => void>();

  tell(): void {
    for (const look of this.#waiting) look();
  }

  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }
}

export interface Watched<Tx> {
  readonly database: Database<Tx>;
  /** The verbs that were sent, in order. */
  readonly sent: string[];
  count(verb: string): number;
  /** Resolves when this verb has been sent so often in all. */
  sentTimes(verb: string, times: number): Promise<void>;
  /** The next statement of this verb is not sent before the returned gate opens. */
  holdBefore(verb: string): { readonly reached: Promise<void>; release(): void };
  /** The answer of the next statement of this verb does not arrive before the returned gate opens. */
  holdAfter(verb: string): { readonly reached: Promise<void>; release(): void };
  /** Statements of this verb fail with this error until it is undefined. */
  fail(verb: string, error: Error | undefined): void;
  /** The next statement of this verb takes effect, and instead of its answer comes this error. */
  loseAnswer(verb: string, error: Error): void;
}

export function watched<Tx>(database: Database<Tx>): Watched<Tx> {
  const sent: string[] = [];
  const watcher = new Watcher();
  const holds = { before: new Map<string, Hold>(), after: new Map<string, Hold>() };
  const failures = new Map<string, Error>();
  const lost = new Map<string, Error>();
  const take = async (when: "before" | "after", verb: string): Promise<void> => {
    const hold = holds[when].get(verb);
    if (!hold) return;
    holds[when].delete(verb);
    hold.reached.open();
    await hold.gate.promise;
  };
  const hold = (when: "before" | "after", verb: string): { reached: Promise<void>; release(): void } => {
    const one = { reached: gate(), gate: gate() };
    holds[when].set(verb, one);
    return { reached: one.reached.promise, release: () => one.gate.open() };
  };
  const query: Queryable["query"] = async (text, params) => {
    const verb = /\.(\w+)\(/.exec(text)?.[1] ?? text;
    await take("before", verb);
    sent.push(verb);
    watcher.tell();
    const failure = failures.get(verb);
    if (failure) throw failure;
    const answer = await database.query(text, params);
    await take("after", verb);
    const instead = lost.get(verb);
    lost.delete(verb);
    if (instead) throw instead;
    return answer;
  };
  const count = (verb: string): number => sent.filter((one) => one === verb).length;
  return {
    database: { ...database, query },
    sent,
    count,
    sentTimes: (verb, times) => watcher.until(() => count(verb) >= times),
    holdBefore: (verb) => hold("before", verb),
    holdAfter: (verb) => hold("after", verb),
    fail(verb, error) {
      if (error) failures.set(verb, error);
      else failures.delete(verb);
    },
    loseAnswer: (verb, error) => void lost.set(verb, error),
  };
}

interface Hold {
  readonly reached: Gate;
  readonly gate: Gate;
}

/** What ran in an engine, and how it ended. */
export class History {
  readonly ran: { task: ClaimedTask; ran: Ran }[] = [];
  readonly #watcher = new Watcher();

  readonly onRan = (task: ClaimedTask, ran: Ran): void => {
    this.ran.push({ task, ran });
    this.#watcher.tell();
  };

  /** Resolves once so many attempts have ended. */
  ended(count: number): Promise<void> {
    return this.#watcher.until(() => this.ran.length >= count);
  }

  outcomes(): string[] {
    return this.ran.map(({ ran }) => ran.outcome);
  }
}

/** A lane that runs `work` and completes. */
export function lane(
  name: string,
  work: (task: ClaimedTask, run: Run) => unknown = () => undefined,
  options: Partial<Lane> = {},
): Lane {
  return {
    name,
    ...options,
    async run(task, run) {
      await work(task, run);
      return done;
    },
  };
}

export interface TestEngine {
  readonly engine: Engine;
  readonly history: History;
  readonly watch: Watched<unknown>;
  readonly errors: unknown[];
  close(): Promise<void>;
}

/** An engine with these lanes on its own connections to this database. */
export function engineOn(
  source: string | Database,
  lanes: readonly Lane[],
  options: EngineOptions & { listen?: false; pool?: number } = {},
): TestEngine {
  const { listen, pool, ...rest } = options;
  const own = typeof source === "string" ? pgDatabase(source, { max: pool ?? 5 }) : undefined;
  const database = (own ?? source) as Database;
  const watch = watched(database);
  if (listen === false) delete (watch.database as { listen?: unknown }).listen;
  const history = new History();
  const errors: unknown[] = [];
  let closed: Promise<void> | undefined;
  const engine = new Engine(watch.database, {
    onRan: history.onRan,
    onError: (error) => errors.push(error),
    ...rest,
  });
  for (const one of lanes) engine.addLane(one);
  return {
    engine,
    history,
    watch,
    errors,
    close() {
      closed ??= engine.stop({ graceMs: 0 }).then(() => own?.close());
      return closed;
    },
  };
}

/** Resolves once so many attempts have ended in these engines together. */
export async function allEnded(engines: readonly TestEngine[], count: number): Promise<void> {
  const ended = (): number => engines.reduce((sum, one) => sum + one.history.ran.length, 0);
  while (ended() < count)
    await Promise.race(engines.map((one) => one.history.ended(one.history.ran.length + 1)));
}

export async function countOf(database: Queryable, condition = "true"): Promise<number> {
  const { rows } = await database.query(
    `select to_jsonb(count(*)) as n from onceward.task where ${condition}`,
  );
  return Number(rows[0]?.["n"]);
}

export const noPoll = 3_600_000;
