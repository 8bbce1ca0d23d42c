/** How events run: the lane of a source. */
import type { Queryable } from "../database/database.ts";
import { milliseconds } from "../duration.ts";
import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { ClaimedTask, NewTask } from "../ledger/task.ts";
import type { Source } from "../source/source.ts";
import type { Engine } from "../worker/engine.ts";
import { type Finish, type Run, withSignal } from "../worker/lane.ts";
import { type Room, withPlace } from "../worker/room.ts";
import type { AttemptOptions } from "./handler.ts";
import { withGuard, type Guard } from "./newer.ts";
import type { Registered, Registry } from "./registry.ts";
import { handlerOfScope, handlerScope } from "./scope.ts";
import { serialOf } from "./serial.ts";
import { Tools } from "./tools.ts";

export interface RunnerParts<Tx> {
  readonly engine: Engine<Tx>;
  readonly source: Source;
  readonly registry: Registry<Tx>;
  readonly defaults: AttemptOptions;
  /** Places for transactions, which are shared with other sources and with steps. */
  readonly room?: Room | undefined;
}

/** Runs one task of a source: an event, or one handler's part of an event that has several. */
export class EventRunner<Tx> {
  readonly #engine: Engine<Tx>;
  readonly #source: Source;
  readonly #registry: Registry<Tx>;
  readonly #defaults: AttemptOptions;
  readonly #room: Room | undefined;
  /** Which handlers of an event its caller runs itself, so that no worker need be woken for these. */
  readonly #attended = new WeakMap<ClaimedTask, readonly Registered<Tx>[]>();

  constructor({ engine, source, registry, defaults, room }: RunnerParts<Tx>) {
    this.#engine = engine;
    this.#source = source;
    this.#registry = registry;
    this.#defaults = defaults;
    this.#room = room;
  }

  attend(task: ClaimedTask, handlers: readonly Registered<Tx>[]): void {
    this.#attended.set(task, handlers);
  }

  /** What differs between the tasks of this lane. */
  settings(task: ClaimedTask): { backoff?: AttemptOptions["backoff"]; deadlineMs?: number } {
    const { backoff, deadline } = this.attemptOptions(this.#handlersOf(task));
    return {
      ...(backoff && { backoff }),
      ...(deadline !== undefined && { deadlineMs: milliseconds(deadline) }),
    };
  }

  /** Those of the one handler; where there are several, the event's own task only hands on. */
  attemptOptions(handlers: readonly Registered<Tx>[]): AttemptOptions {
    const own = handlers.length === 1 ? handlers[0]?.options : undefined;
    return {
      maxAttempts: own?.maxAttempts ?? this.#defaults.maxAttempts,
      backoff: own?.backoff ?? this.#defaults.backoff,
      deadline: own?.deadline ?? this.#defaults.deadline,
    };
  }

  async run(task: ClaimedTask, run: Run): Promise<Finish> {
    const handlers = this.#handlersOf(task);
    const [only] = handlers;
    if (!only) {
      // Perhaps a newer version of the application has it, and runs beside this one: that one will get it.
      throw new OncewardError(
        "handler_missing",
        `${this.#source.name}: no handler for ${task.type ?? "this task"}.`,
      );
    }
    const event = await this.#parse(task);
    const apart = handlerOfScope(task.scope) === undefined;
    if (apart && (handlers.length > 1 || (task.serial === null && serialOf(only, event) !== undefined))) {
      return this.#handOn(task, event, handlers, run);
    }
    const { applyIfNewer } = only.options;
    if (!applyIfNewer) return this.#handle(only, task, event, run);
    const scope = apart ? handlerScope(task.scope, only.name) : task.scope;
    return withGuard(applyIfNewer, { scope, event, cause: task, signal: run.signal }, (guard) =>
      this.#handle(only, task, event, run, guard),
    );
  }

  #handlersOf(task: ClaimedTask): readonly Registered<Tx>[] {
    const name = handlerOfScope(task.scope);
    if (name === undefined) return this.#registry.of(task.type ?? "");
    const handler = this.#registry.named(name);
    return handler ? [handler] : [];
  }

  async #parse({ body, key, type }: ClaimedTask): Promise<unknown> {
    if (body === null) throw new Fatal("The payload of this event has been pruned.");
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    try {
      return await this.#source.parse(bytes, { id: key, type: type ?? "" });
    } catch (error) {
      // Bytes do not change: what cannot be read now never can. Anything else may be the sender's API.
      if (error instanceof OncewardError && error.code === "body_unreadable") {
        throw new Fatal(messageOf(error), { cause: error });
      }
      throw error;
    }
  }

  /** Its rows, what it enqueued, its effect keys and the completion: one commit. */
  async #handle(
    handler: Registered<Tx>,
    task: ClaimedTask,
    event: unknown,
    run: Run,
    guard?: Guard,
  ): Promise<Finish> {
    let due: ReadonlySet<string> = new Set();
    const result = await this.#transaction(run, async (tx, queryable) => {
      const verbs = run.ledger.within(queryable);
      const latest = guard ? await guard.latest(verbs) : { state: undefined };
      if (!latest) return this.#complete(task, run, queryable, staleResult);
      const tools = new Tools(this.#engine, verbs, task);
      const { attempt, scope, key } = task;
      const { enqueue, once } = tools;
      try {
        const object = latest.state;
        await handler.handle(withSignal({ event, object, tx, enqueue, once, attempt, scope, key }, run));
        await tools.settle();
      } finally {
        tools.close();
      }
      due = tools.due;
      return this.#complete(task, run, queryable);
    });
    for (const scope of due) this.#engine.worker.announce(scope);
    return { finish: "committed", result };
  }

  /** Several handlers, each with an outcome of its own: one task each, in the event's own transaction. */
  async #handOn(
    task: ClaimedTask,
    event: unknown,
    handlers: readonly Registered<Tx>[],
    run: Run,
  ): Promise<Finish> {
    const parts = handlers.map((handler): NewTask => {
      const { maxAttempts } = this.attemptOptions([handler]);
      return {
        scope: handlerScope(task.scope, handler.name),
        key: task.key,
        ...(task.type !== null && { type: task.type }),
        body: task.body ?? undefined,
        serial: serialOf(handler, event),
        maxTries: maxAttempts,
        cause: task,
      };
    });
    const result = await this.#transaction(run, async (_tx, queryable) => {
      const verbs = run.ledger.within(queryable);
      const recorded = await verbs.record(parts);
      const known = parts.filter((_, i) => recorded[i]?.outcome === "duplicate");
      // Somebody asked for this event once more: so each handler runs once more.
      if (task.generation > 1 && known.length > 0) {
        await verbs.replay(known, { again: true, reason: "the event was replayed" });
      }
      return this.#complete(task, run, queryable, handedOn);
    });
    const attended = this.#attended.get(task);
    for (const [i, handler] of handlers.entries()) {
      if (!attended?.includes(handler)) this.#engine.worker.announce(parts[i]!.scope);
    }
    return { finish: "committed", result };
  }

  #transaction<T>(run: Run, work: (tx: Tx, queryable: Queryable) => Promise<T>): Promise<T> {
    const { database } = this.#engine;
    return withPlace(this.#room, run, database.abortable, () =>
      database.transaction(work, { signal: run.signal }),
    );
  }

  /** The last statement, so that an error which the handler swallowed surfaces here. */
  async #complete(
    task: ClaimedTask,
    run: Run,
    queryable: Queryable,
    result?: string,
  ): Promise<string | undefined> {
    run.throwIfAborted();
    const { scope, key, attempt } = task;
    await run.ledger.within(queryable).completeLast({ scope, key, attempt, result });
    return result;
  }
}

/** Kept with a task whose handler was not called, for whoever asks why nothing happened. */
const staleResult = JSON.stringify({ skipped: "something newer was applied before" });

/** Kept with an event of several handlers, for whoever runs it inline, or looks: there is a task for each of them. */
export const handedOn = JSON.stringify({ handedOn: "to a task of its own for each handler" });
