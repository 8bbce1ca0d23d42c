import type { ActionFunction, ActionOptions, ActionOutcome } from "./action/action.ts";
import { runAction, takeAction } from "./action/run.ts";
import { tool, type Tool, type ToolOptions } from "./action/tool.ts";
import type { Database } from "./database/database.ts";
import { type DatabaseInput, openDatabase } from "./database/open.ts";
import type { PgClient } from "./database/pg.ts";
import { connectSource, type ConnectedSource, type SourceOptions } from "./handler/source.ts";
import { defineJob } from "./job/define.ts";
import { enqueue } from "./job/enqueue.ts";
import type { Enqueue, Job, JobFunction, JobOptions } from "./job/job.ts";
import { schedule, type ScheduleOptions, type TickTools } from "./job/schedule.ts";
import type { Schema, SchemaInput, SchemaOutput } from "./job/schema.ts";
import { defineMachine, type Machine, type MachineDefinition } from "./machine/machine.ts";
import { attemptedOf, type Observer } from "./observe.ts";
import { quietly } from "./quietly.ts";
import type { RecoveryContext } from "./recover/context.ts";
import { createRecovery, type Recovery } from "./recover/recovery.ts";
import type { TaskIdentity } from "./ledger/task.ts";
import type { Receipt } from "./receive/receiver.ts";
import type { Source } from "./source/source.ts";
import { sendSignal, type Signalled, type SignalOptions } from "./step/signal.ts";
import { Unobserved } from "./unobserved.ts";
import { warmUp } from "./warm-up.ts";
import { Engine, type EngineOptions } from "./worker/engine.ts";

/** Everything of Onceward in one process, over one database. `Tx` is that database's own kind of transaction. */
export interface Once<Tx = PgClient> {
  readonly database: Database<Tx>;
  readonly engine: Engine<Tx>;
  /** The sources that were connected, by name. */
  readonly sources: ReadonlyMap<string, ConnectedSource<Record<string, unknown>, Tx>>;

  /** Connects a sender of webhooks: register handlers with `.on`, and mount it with an adapter. */
  source<Events extends Record<string, unknown>>(
    source: Source<Events>,
    options?: SourceOptions<Events>,
  ): ConnectedSource<Events, Tx>;

  /** Defines deferred work. The type of its input comes from the schema, or from the function's annotation. */
  job<Result, Input = unknown>(name: string, fn: JobFunction<Input, Result, Tx>): Job<Input, Result>;
  job<S extends Schema, Result>(
    name: string,
    options: JobOptions<SchemaOutput<S>> & { readonly input: S },
    fn: JobFunction<SchemaOutput<S>, Result, Tx>,
  ): Job<SchemaInput<S>, Result>;
  job<Result, Input = unknown>(
    name: string,
    options: JobOptions<NoInfer<Input>> & { readonly input?: undefined },
    fn: JobFunction<Input, Result, Tx>,
  ): Job<Input, Result>;

  /** Has a job run: alone, or with `{ tx }` inside your own open transaction. */
  readonly enqueue: Enqueue;

  /** Runs a function at the times of a cron expression, each time once across all processes. */
  schedule(name: string, options: ScheduleOptions, fn: (tools: TickTools<Tx>) => unknown): void;

  /**
   * Runs an action once for its key and returns its value: the first caller runs it, concurrent ones wait, later ones
   * get the kept value. One that failed runs again from its last finished step.
   */
  run<T, Input = undefined>(
    key: string,
    fn: ActionFunction<T, Tx, Input>,
    options?: ActionOptions<Input>,
  ): Promise<T>;
  /** The same, and says how it came about: done, duplicate, running or waiting. */
  take<T, Input = undefined>(
    key: string,
    fn: ActionFunction<T, Tx, Input>,
    options?: ActionOptions<Input>,
  ): Promise<ActionOutcome<T>>;
  /** Wraps an agent's tool: the same call in the same run has the result of the first time. */
  tool<Args, Result>(options: ToolOptions<Args, Result, Tx>): Tool<Args, Result>;
  /** Tells a task what it waits for with `step.waitFor(name)`. The first word counts. */
  signal(task: TaskIdentity, name: string, value?: unknown, options?: SignalOptions): Promise<Signalled>;

  /** Guarded states of subjects, whose moves happen once, with their effects in the same transaction. */
  machine<State extends string, Moves>(
    name: string,
    definition: MachineDefinition<State, Moves, Tx>,
  ): Machine<State, Moves, Tx>;

  /** For whoever is on call: see what is stuck and why, and have it run again. */
  readonly recovery: Recovery;

  /** Has somebody told what happens here: each delivery, each attempt. */
  observe(observer: Observer): void;

  /**
   * Opens the connections of the pool and has each plan the ledger's statements, and lets each source read what it has
   * signed itself; nothing is written. Called before a server listens, the first storm of deliveries meets warm code.
   */
  warmUp(): Promise<void>;
  /** Makes sure of the schema, and runs what is due in this process from now on. */
  start(): Promise<void>;
  /** Takes no more work, lets what runs finish for a while, hands the rest back, and closes what it opened. */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

export interface OnceOptions<Tx> extends EngineOptions {
  /**
   * A URL (postgres://…), a pg.Pool, a `sql` of postgres.js, a PGlite instance, or what drizzleDatabase,
   * kyselyDatabase or prismaDatabase returns. `"embedded"`: an embedded Postgres in ./.onceward/db; left out, the same,
   * but not in production (NODE_ENV=production, AWS Lambda, Vercel), where that is an error.
   */
  readonly database?: DatabaseInput<Tx> | string | undefined;
}

/** The beginning of everything: one for a process. */
export function createOnce<Tx = PgClient>(options: OnceOptions<Tx> = {}): Once<Tx> {
  const { database: input, ...rest } = options;
  const database = openDatabase(input) as Database<Tx>;
  const observers: Observer[] = [];
  const unobserved = [new Unobserved()];
  /** Who is told; standard error, where nobody observes and nobody was told in another way. */
  const audience = (toldElsewhere: unknown): readonly Observer[] =>
    observers.length > 0 || toldElsewhere ? observers : unobserved;
  const onError = (error: unknown): void => {
    quietly(() => rest.onError?.(error));
    for (const observer of audience(rest.onError)) quietly(() => observer.troubled?.(error));
  };
  const engine = new Engine(database, {
    ...rest,
    onRan(task, ran, ms) {
      quietly(() => rest.onRan?.(task, ran, ms), onError);
      const told = audience(rest.onRan);
      // Most attempts go well, and standard error is told of the others alone.
      if (told.length === 0 || (told === unobserved && ran.outcome === "done")) return;
      const attempted = attemptedOf(task, ran, ms);
      for (const observer of told) quietly(() => observer.attempted?.(attempted), onError);
    },
    onError,
  });
  const sources = new Map<string, ConnectedSource<Record<string, unknown>, Tx>>();
  const connected: Source[] = [];
  let stopping: Promise<void> | undefined;
  return {
    database: engine.database,
    engine,
    sources,
    source(source, sourceOptions) {
      const made = connectSource(engine, source, {
        ...sourceOptions,
        log(receipt: Receipt, error?: unknown) {
          quietly(() => sourceOptions?.log?.(receipt));
          const told = audience(sourceOptions?.log);
          for (const observer of told) quietly(() => observer.received?.(receipt));
          if (error === undefined) return;
          for (const observer of told) quietly(() => observer.troubled?.(error));
        },
      });
      connected.push(source);
      sources.set(made.name, made as unknown as ConnectedSource<Record<string, unknown>, Tx>);
      return made;
    },
    // Overloads are for the caller's eyes; both sides have the same ones.
    job: ((...args: [string, never, never]) => defineJob(engine, ...args)) as unknown as Once<Tx>["job"],
    enqueue: ((...args: [never, never]) => enqueue(engine as Engine, ...args)) as unknown as Enqueue,
    schedule: (name, scheduleOptions, fn) => schedule(engine, name, scheduleOptions, fn),
    run: (key, fn, actionOptions) => runAction(engine, key, fn, actionOptions),
    take: (key, fn, actionOptions) => takeAction(engine, key, fn, actionOptions),
    tool: (toolOptions) => tool(engine, toolOptions),
    signal: (task, name, value, signalOptions) => sendSignal(engine, task, name, value, signalOptions),
    machine: (name, definition) => defineMachine(engine, name, definition),
    recovery: createRecovery({ engine, sources } as unknown as RecoveryContext),
    observe: (observer) => void observers.push(observer),
    warmUp: () => warmUp(engine as Engine, connected),
    start: () => engine.start(),
    // A second signal, or a `finally` after one: all wait for the same end.
    stop: (stopOptions) => (stopping ??= engine.stop(stopOptions).then(() => database.close())),
  };
}
