import { OncewardError } from "../errors.ts";
import type { Receiver } from "../receive/delivery.ts";
import { createReceiver, type Receipt } from "../receive/receiver.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import { sourceName } from "../source/secrets.ts";
import type { Identity, Source } from "../source/source.ts";
import type { Engine } from "../worker/engine.ts";
import { checkAttempts } from "../worker/attempts.ts";
import type { Lane } from "../worker/lane.ts";
import { connectionsToUse } from "../worker/room.ts";
import type {
  AnswerMode,
  AttemptOptions,
  EventOf,
  Handler,
  HandlerOptions,
  TogetherHandler,
  TogetherHandlerOptions,
  TypeOrPattern,
} from "./handler.ts";
import { Deliveries } from "./deliveries.ts";
import { Inline } from "./inline.ts";
import { Intake, type Taken, type TakeOptions } from "./intake.ts";
import { checkPattern, type Registered, Registry } from "./registry.ts";
import { EventRunner } from "./run.ts";

export interface SourceOptions<Events = Record<string, unknown>> extends AttemptOptions {
  /**
   * Left out: `queued` where a worker runs in this process or `worker` says that one runs elsewhere, else
   * `inline`, so that somebody runs the event in any case. A handler may say otherwise for its types.
   */
  readonly answer?: AnswerMode | undefined;
  /**
   * `"elsewhere"`: this process only receives, and workers of other processes run what it records. Register the same
   * handlers here all the same: an event whose type has none is kept as `ignored`.
   */
  readonly worker?: "here" | "elsewhere" | undefined;
  /** Larger bodies are answered with 413. Default 4 MiB, at most 16 MiB. */
  readonly maxBytes?: number | undefined;
  /** `inline`: how long a sender waits for what somebody else is running, before it gets its 409. Default 3000. */
  readonly waitMs?: number | undefined;
  /**
   * How many events are handled at once in this process; each transaction holds a database connection. Default: what
   * the pool can bear, for all sources together that do not say otherwise, and as many as a handler takes `together`.
   */
  readonly concurrency?: number | undefined;
  /**
   * Types that can happen only once per object, besides those that the source knows; `"none"` to treat every
   * event id as a fact of its own.
   */
  readonly oncePerObject?: readonly (keyof Events & string)[] | "none" | undefined;
  /** Told of every request, without payloads and secrets. */
  readonly log?: ((receipt: Receipt) => void) | undefined;
}

export interface OfAccount {
  /** The account whose event it is, where the event itself does not say so. */
  readonly account?: string | undefined;
}

/** A source with its handlers: mount it with an adapter. */
export interface ConnectedSource<Events extends Record<string, unknown>, Tx> extends Receiver {
  readonly name: string;
  /** What is registered: names, and the types they are for, or a beginning and a star. */
  readonly handlers: readonly { readonly name: string; readonly pattern: string }[];
  /**
   * Handles a type of event, or with `"invoice.*"` every type that begins so. An event with several handlers runs
   * each of them, with an outcome of its own.
   */
  on<P extends TypeOrPattern<Events>>(type: P, handler: Handler<EventOf<Events, P>, Tx>): this;
  on<P extends TypeOrPattern<Events>, State = undefined>(
    type: P,
    options: HandlerOptions<EventOf<Events, P>, State>,
    handler: Handler<EventOf<Events, P>, Tx, State>,
  ): this;
  /** Handles several events in one call and one transaction: `{ together: 100 }` at most so many. */
  on<P extends TypeOrPattern<Events>>(
    type: P,
    options: TogetherHandlerOptions<EventOf<Events, P>>,
    handler: TogetherHandler<EventOf<Events, P>, Tx>,
  ): this;
  /**
   * Handles what no other handler does. `"ignore"`, which is also what happens without it: such events are kept,
   * and run when a handler exists and somebody replays them.
   */
  fallback(handler: Handler<Events[keyof Events], Tx> | "ignore"): this;
  /**
   * Takes an event that came another way than by a delivery, say fetched from the sender's API: as if it had
   * been delivered, without a signature. So never hand it what a stranger sent.
   */
  take(body: Uint8Array, options?: TakeOptions & OfAccount): Promise<Taken>;
  /** Which task these bytes of a sender would be. */
  identify(
    body: Uint8Array,
    options?: OfAccount,
  ): TaskIdentity & { readonly id: string; readonly type: string };
  /** Whether an event of this type has a handler here. */
  handles(type: string): boolean;
  /** Throws `config_invalid` where a secret is still missing that deliveries are verified with. */
  check(): void;
}

/** Above Stripe's largest events (below 300 KB) and nearly all of GitHub's; a stranger can make us hold no more than this. */
const defaultMaxBytes = 4 * 1024 * 1024;
/** What the ledger keeps of one payload. */
const mostBytes = 16 * 1024 * 1024;
const defaultWaitMs = 3_000;
/** Their payloads are in memory, and their locks are held, all at once. */
const mostTogether = 1_000;

/** First parts of scopes that are not sources'. */
const reserved = new Set(["job", "action", "run", "tool", "machine", "effect", "schedule"]);

/** Connects a source to the ledger: what it receives is recorded there, and its handlers run what was recorded. */
export function connectSource<Events extends Record<string, unknown>, Tx>(
  engine: Engine<Tx>,
  source: Source<Events>,
  options: SourceOptions<Events> = {},
): ConnectedSource<Events, Tx> {
  const name = checkName(source.name);
  const {
    maxBytes = defaultMaxBytes,
    waitMs = defaultWaitMs,
    concurrency = connectionsToUse(engine.database),
  } = options;
  if (!(maxBytes > 0 && maxBytes <= mostBytes)) {
    throw new OncewardError("config_invalid", `${name}: maxBytes is a number of bytes up to ${mostBytes}.`);
  }
  checkAttempts(name, options);
  const registry = new Registry<Tx>();
  const room = options.concurrency === undefined ? engine.room : undefined;
  const runner = new EventRunner({ engine, source, registry, defaults: options, room });
  const lane: Lane = {
    name,
    // Those who share a transaction need no connection each.
    get concurrency() {
      return options.concurrency ?? Math.max(concurrency, ...registry.all.map(atOnce));
    },
    run: (task, run) => runner.run(task, run),
    settings: (task) => runner.settings(task),
  };
  engine.addLane(lane);
  const intake = new Intake({
    engine,
    source,
    registry,
    runner,
    inline: new Inline({ engine, lane, places: concurrency, waitMs }),
    oncePerObject: oncePerObject(source.oncePerObject, options.oncePerObject),
    answer: options.answer,
    deliveries: new Deliveries(engine as Engine),
    workerElsewhere: options.worker === "elsewhere",
  });
  const take = (identity: Identity, body: Uint8Array): Promise<Taken> => intake.take(identity, body);
  const { receive } = createReceiver({ source, maxBytes, take, log: options.log });

  const identify = (body: Uint8Array, { account }: OfAccount = {}): Identity => {
    const identity = source.identify({ body, header: () => undefined });
    if ("reply" in identity) throw new OncewardError("body_unreadable", `${name}: this is no event.`);
    return account === undefined ? identity : { ...identity, account: identity.account ?? account };
  };

  const connected: ConnectedSource<Events, Tx> = {
    name,
    maxBytes,
    receive,
    get handlers() {
      return registry.all.map(({ name: own, pattern }) => ({ name: own, pattern }));
    },
    on(type: string, first: unknown, second?: unknown) {
      engine.checkOpen(`A handler of ${name} for ${type}`);
      checkPattern(type);
      const handle = (second ?? first) as Registered<Tx>["handle"];
      const own = (second === undefined ? {} : first) as Registered<Tx>["options"];
      const named = own.name ?? type;
      checkAttempts(`${name}, handler ${named}`, own);
      checkTogether(`${name}, handler ${named}`, own);
      const registered: Registered<Tx> = { name: named, pattern: type, options: own, handle };
      registry.add(registered);
      if (own.together !== undefined) runner.bringTogether(registered, own.together);
      return connected;
    },
    fallback(handler) {
      engine.checkOpen(`The fallback of ${name}`);
      registry.setFallback(
        handler === "ignore"
          ? undefined
          : { name: "fallback", pattern: "*", options: {}, handle: handler as Registered<Tx>["handle"] },
      );
      return connected;
    },
    take: async (body, how) => intake.take(identify(body, how), body, how),
    identify(body, how) {
      const identity = identify(body, how);
      return { ...intake.identify(identity), id: identity.id, type: identity.type };
    },
    handles: (type) => registry.of(type).length > 0,
    check: () => source.check?.(),
  };
  return connected;
}

function checkName(name: string): string {
  if (reserved.has(sourceName(name))) {
    throw new OncewardError(
      "config_invalid",
      `A source cannot be named ${name}: scopes of that name are for other things.`,
    );
  }
  return name;
}

function atOnce({ options }: Registered<never>): number {
  return options.together ?? 1;
}

function checkTogether(whose: string, { together, applyIfNewer }: Registered<never>["options"]): void {
  if (together === undefined) return;
  if (!(Number.isInteger(together) && together >= 1 && together <= mostTogether)) {
    throw new OncewardError(
      "config_invalid",
      `${whose}: together is a whole number from 1 to ${mostTogether}.`,
    );
  }
  if (applyIfNewer) {
    throw new OncewardError(
      "config_invalid",
      `${whose}: applyIfNewer decides event by event, so that it does not go with together.`,
    );
  }
}

function oncePerObject(
  own: ReadonlySet<string> | undefined,
  more: readonly string[] | "none" | undefined,
): ReadonlySet<string> {
  return more === "none" ? new Set() : new Set([...(own ?? []), ...(more ?? [])]);
}
