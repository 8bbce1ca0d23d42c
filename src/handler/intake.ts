/** From a genuine event to what became of it: recorded, then run here and now, or by a worker. */
import { OncewardError } from "../errors.ts";
import type { ClaimedTask, NewTask, Recorded, TaskIdentity } from "../ledger/task.ts";
import type { Identity, Source } from "../source/source.ts";
import type { Engine } from "../worker/engine.ts";
import type { Deliveries } from "./deliveries.ts";
import type { AnswerMode } from "./handler.ts";
import type { Inline } from "./inline.ts";
import { gravest, outcomeOfState, type Outcome } from "./outcome.ts";
import type { Registered, Registry } from "./registry.ts";
import { handedOn, type EventRunner } from "./run.ts";
import { conflictScope, eventScope, handlerScope } from "./scope.ts";
import { serialOf } from "./serial.ts";
import { timely } from "./timely.ts";

export interface IntakeParts<Tx> {
  readonly engine: Engine<Tx>;
  readonly source: Source;
  readonly registry: Registry<Tx>;
  readonly runner: EventRunner<Tx>;
  readonly inline: Inline;
  /** Types that can happen only once per object. */
  readonly oncePerObject: ReadonlySet<string>;
  readonly answer: AnswerMode | undefined;
  readonly deliveries: Deliveries;
  /** Workers of other processes run what this one records. */
  readonly workerElsewhere: boolean;
}

/** How an event is taken that was not delivered. */
export interface TakeOptions {
  readonly origin?: NewTask["origin"];
  /** Left out: as for what is delivered. */
  readonly answer?: AnswerMode | undefined;
}

export interface Taken {
  readonly outcome: Outcome;
  readonly scope: string;
  readonly key: string;
}

/** The reason kept with an event whose type nobody handles. */
const unhandled = "no handler for this type";

export class Intake<Tx> {
  readonly #parts: IntakeParts<Tx>;
  #ready = false;

  constructor(parts: IntakeParts<Tx>) {
    this.#parts = parts;
  }

  async take(identity: Identity, body: Uint8Array, how: TakeOptions = {}): Promise<Taken> {
    const { engine, registry } = this.#parts;
    if (!this.#ready) {
      this.#checkHandlers();
      await timely(engine.ready());
      this.#ready = true;
    }
    const handlers = registry.of(identity.type);
    const task = { ...this.#task(identity, body, handlers), origin: how.origin };
    const attended = handlers.filter((handler) => (how.answer ?? this.#mode(handler)) === "inline");
    let outcome = await (attended.length > 0 ? this.#inline(task, handlers, attended) : this.#queued(task));
    if (outcome === "ignored" && handlers.length > 0) outcome = await this.#revive(task, handlers, attended);
    if (outcome === "conflict") await this.#keepApart(task);
    if (outcome === "duplicate" || outcome === "parked" || outcome === "busy")
      this.#parts.deliveries.again(task);
    return { outcome, scope: task.scope, key: task.key };
  }

  /**
   * What is recorded without a handler is finished, so that no worker elsewhere would ever see it. A source without any
   * is a process that was never told what the others handle.
   */
  #checkHandlers(): void {
    const { source, registry, workerElsewhere } = this.#parts;
    if (!workerElsewhere || registry.all.length > 0) return;
    throw new OncewardError(
      "config_invalid",
      `${source.name}: with worker: "elsewhere" other processes run what this one records, but an event whose type has ` +
        "no handler here is kept as ignored, and nobody runs it. Register the same handlers here; where workers " +
        'in another language run them, on("*", …).',
    );
  }

  /** Which task an event is. */
  identify({ id, type, objectId, account, livemode }: Identity): TaskIdentity {
    const { source, oncePerObject } = this.#parts;
    // Twins, two events of one fact, are one task.
    const twins = objectId !== undefined && oncePerObject.has(type);
    return { scope: eventScope(source.name, account, livemode), key: twins ? `${type}:${objectId}` : id };
  }

  #task(identity: Identity, body: Uint8Array, handlers: readonly Registered<Tx>[]): NewTask {
    const { source, runner, oncePerObject } = this.#parts;
    const { id, type, fingerprint, createdAt } = identity;
    const [only] = handlers;
    const { scope, key } = this.identify(identity);
    return {
      scope,
      key,
      type,
      body,
      // Sources know for which of their types the fingerprints of twins are equal.
      fingerprint:
        key !== id && oncePerObject.has(type) && !source.oncePerObject?.has(type) ? undefined : fingerprint,
      serial:
        handlers.length === 1 && only?.options.serialBy ? this.#serial(only, body, identity) : undefined,
      maxTries: runner.attemptOptions(handlers).maxAttempts,
      happenedAt: longAgo(createdAt),
      ignored: handlers.length === 0 ? unhandled : undefined,
    };
  }

  /**
   * The serial group, where it can be said already. A `serialBy` that throws must not lose the event: it is
   * recorded, and its run asks again, and fails in everybody's sight if it must.
   */
  #serial(handler: Registered<Tx>, body: Uint8Array, identity: Identity): string | undefined {
    const { source } = this.#parts;
    try {
      const event = source.read ? source.read(body) : source.parse(body, identity);
      if (!(event instanceof Promise)) return serialOf(handler, event);
      event.catch(() => undefined);
    } catch {
      // Said above.
    }
    return undefined;
  }

  #mode(handler: Registered<Tx>): AnswerMode {
    const { engine, answer, workerElsewhere } = this.#parts;
    return (
      handler.options.answer ?? answer ?? (engine.worker.started || workerElsewhere ? "queued" : "inline")
    );
  }

  async #queued(task: NewTask): Promise<Outcome> {
    return queuedOutcome(await timely(this.#parts.engine.worker.offer(task)));
  }

  async #inline(
    task: NewTask,
    handlers: readonly Registered<Tx>[],
    attended: readonly Registered<Tx>[],
  ): Promise<Outcome> {
    const { inline, runner } = this.#parts;
    const attend = (claimed: ClaimedTask): void => runner.attend(claimed, attended);
    const { outcome, result } = await inline.settle(task, attend);
    const several = handlers.length > 1 || handlers[0]?.options.serialBy !== undefined;
    if (outcome === "done" ? result !== handedOn : outcome !== "duplicate" || !several) return outcome;
    return gravest([outcome, ...(await this.#settleHandlers(task, attended, outcome))]);
  }

  /** One handler's failure is no other's: each is tried, and what failed is tried again alone. */
  async #settleHandlers(
    task: NewTask,
    attended: readonly Registered<Tx>[],
    missing: Outcome,
  ): Promise<readonly Outcome[]> {
    const { inline, runner } = this.#parts;
    const attend = (claimed: ClaimedTask): void => runner.attend(claimed, []);
    const settled = await Promise.all(
      attended.map((handler) => {
        const { scope, key } = task;
        return inline.settleKnown({ scope: handlerScope(scope, handler.name), key }, attend, missing);
      }),
    );
    return settled.map(({ outcome }) => outcome);
  }

  /** It was ignored when it came first; meanwhile its type has a handler, and the sender was asked to send it again. */
  async #revive(
    task: NewTask,
    handlers: readonly Registered<Tx>[],
    attended: readonly Registered<Tx>[],
  ): Promise<Outcome> {
    const { engine } = this.#parts;
    const reason = "delivered again, and its type has a handler now";
    const [replayed] = await timely(engine.ledger.verbs.replay([task], { reason }));
    // Its bytes, which this delivery brought, were pruned this moment: it stays what it was.
    if (replayed?.outcome === "pruned") return "ignored";
    if (attended.length > 0) return this.#inline(task, handlers, attended);
    // Somebody was faster: the ledger says what became of it.
    if (replayed?.outcome !== "replayed") return this.#queued(task);
    engine.worker.announce(task.scope);
    return "accepted";
  }

  /** What came under a known id with other content is not run, and not thrown away: somebody has to look at it. */
  async #keepApart(task: NewTask): Promise<void> {
    const { scope, key, type, body, fingerprint = "" } = task;
    const apart: NewTask = {
      scope: conflictScope(scope),
      key: `${key} ${fingerprint.slice(0, 32)}`,
      type,
      body,
      cause: { scope, key },
      ignored: "this id came before with other content",
    };
    await timely(this.#parts.engine.ledger.record(apart));
  }
}

/** No key is pruned before it is twice as old as this, so the ledger need not be asked about younger events. */
const prunedAfterMs = 3_600_000;

/** When an old event happened, by its sender. It is a hint: what no sender can mean must not keep an event out. */
function longAgo(createdAt: Date | undefined): Date | undefined {
  const at = createdAt?.getTime() ?? 0;
  return at > 0 && Date.now() - at > prunedAfterMs ? createdAt : undefined;
}

function queuedOutcome(recorded: Recorded): Outcome {
  if (recorded.outcome === "recorded")
    return recorded.state ? (outcomeOfState(recorded.state) ?? "accepted") : "accepted";
  if (recorded.outcome === "claimed") return "accepted";
  if (recorded.outcome === "conflict") return "conflict";
  return outcomeOfState(recorded.state) ?? "duplicate";
}
