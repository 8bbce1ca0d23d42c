/** How events run: the lane of a source. */
import type { Queryable } from "../database/database.ts";
import { milliseconds } from "../duration.ts";
import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { ClaimedTask, NewTask } from "../ledger/task.ts";
import type { Source } from "../source/source.ts";
import type { Engine } from "../worker/engine.ts";
import { type Finish, type Run, withSignal } from "../worker/lane.ts";
import { connectionsToUse, type Room, withPlace } from "../worker/room.ts";
import type { AttemptOptions, HandledEvent } from "./handler.ts";
import { withGuard, type Guard } from "./newer.ts";
import type { Registered, Registry } from "./registry.ts";
import { handlerOfScope, handlerScope } from "./scope.ts";
import { serialOf } from "./serial.ts";
import { type Member, runOf, together } from "./together.ts";
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
  /** What a sender waits for: which handlers of the event its caller runs itself, so that no worker need be woken for these. */
  readonly #attended = new WeakMap<ClaimedTask, readonly Registered<Tx>[]>();
  /** Of handlers that take several events: what brings these together. */
  readonly #together = new Map<Registered<Tx>, (member: Member) => Promise<Finish>>();

  constructor({ engine, source, registry, defaults, room }: RunnerParts<Tx>) {
    this.#engine = engine;
    this.#source = source;
    this.#registry = registry;
    this.#defaults = defaults;
    this.#room = room;
  }

  /** Of a handler that takes several events: from here on they find each other, in no async context of any of them. */
  bringTogether(handler: Registered<Tx>, max: number): void {
    const transactions = connectionsToUse(this.#engine.database);
    const share = together((members) => this.#handle(handler, members), { max, transactions });
    this.#together.set(handler, share);
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
    const member: Member = { task, event, run };
    const share = this.#together.get(only);
    if (share && this.#mayShare(task)) return share(member);
    const { applyIfNewer } = only.options;
    if (!applyIfNewer) return this.#handle(only, [member]);
    const scope = apart ? handlerScope(task.scope, only.name) : task.scope;
    return withGuard(applyIfNewer, { scope, event, cause: task, signal: run.signal }, (guard) =>
      this.#handle(only, [member], guard),
    );
  }

  /**
   * Whether others may go along. What was begun before may be what ended all of them, the whole process even: by itself
   * it can do so to nobody else again. What is replayed, also in a dry run, counts as begun. And a sender who waits for his
   * event shall not wait for that.
   */
  #mayShare(task: ClaimedTask): boolean {
    return task.attempt === 1 && !this.#attended.has(task);
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

  /** Its rows, what it enqueued, its effect keys and the completion, of one event or of several: one commit. */
  async #handle(handler: Registered<Tx>, members: readonly Member[], guard?: Guard): Promise<Finish> {
    const run = runOf(members);
    const due = new Set<string>();
    const result = await this.#transaction(run, async (tx, queryable) => {
      const verbs = run.ledger.within(queryable);
      const latest = guard ? await guard.latest(verbs) : { state: undefined };
      if (!latest) return this.#complete(members, run, queryable, staleResult);
      const tools = members.map(({ task }) => new Tools(this.#engine, verbs, task));
      const events = members.map((member, i) => handledEvent(member, tools[i]!));
      try {
        if (handler.options.together !== undefined) await handler.handle(withSignal({ events, tx }, run));
        else await handler.handle(withSignal({ ...events[0]!, object: latest.state, tx }, run));
        for (const one of tools) await one.settle();
      } finally {
        for (const one of tools) one.close();
      }
      for (const one of tools) for (const scope of one.due) due.add(scope);
      return this.#complete(members, run, queryable);
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
      return this.#complete([{ task }], run, queryable, handedOn);
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
    members: readonly Pick<Member, "task">[],
    run: Run,
    queryable: Queryable,
    result?: string,
  ): Promise<string | undefined> {
    run.throwIfAborted();
    const completions = members.map(({ task: { scope, key, attempt } }) => ({ scope, key, attempt, result }));
    const verbs = run.ledger.within(queryable);
    await (completions.length === 1 ? verbs.completeLast(completions[0]!) : verbs.completeAll(completions));
    return result;
  }
}

function handledEvent({ task, event }: Member, { enqueue, once }: Tools): HandledEvent<unknown> {
  const { attempt, scope, key } = task;
  return { event, enqueue, once, attempt, scope, key };
}

/** Kept with a task whose handler was not called, for whoever asks why nothing happened. */
const staleResult = JSON.stringify({ skipped: "something newer was applied before" });

/** Kept with an event of several handlers, for whoever runs it inline, or looks: there is a task for each of them. */
export const handedOn = JSON.stringify({ handedOn: "to a task of its own for each handler" });
