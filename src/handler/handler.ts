/** What one writes to handle events, and what a handler is given. */
import type { Enqueued, EnqueueOptions, Job, JobReference } from "../job/job.ts";
import type { Backoff } from "../worker/lane.ts";

/**
 * `queued`: the sender gets its 200 once the event is recorded, and a worker runs it.
 * `inline`: the handler runs first, and the sender learns how that went.
 */
export type AnswerMode = "queued" | "inline";

/** An event, and what belongs to it alone. */
export interface HandledEvent<Event> {
  readonly event: Event;
  /** Has a job run after the commit. */
  enqueue<Input>(job: Job<Input>, input: NoInfer<Input>, options?: EnqueueOptions): Promise<Enqueued>;
  enqueue(job: Job<void>): Promise<Enqueued>;
  enqueue(job: JobReference, input?: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  /** True for whoever takes this effect key first, whatever event brings it; false ever after. */
  once(effectKey: string): Promise<boolean>;
  /** Counts the attempts of this task, from 1. */
  readonly attempt: number;
  /** The task's identity: `key` is the sender's id of the event, or type and object id for what happens once per object. */
  readonly scope: string;
  readonly key: string;
}

/** What every handler is given of its attempt. */
export interface InTransaction<Tx> {
  /** Your database's own kind of transaction. */
  readonly tx: Tx;
  /** Aborts when the claim is lost, the deadline has passed, or the process stops. */
  readonly signal: AbortSignal;
}

/**
 * What a handler is given. What it writes through `tx`, what it enqueues and the effect keys it takes
 * commit together with the task's completion, or not at all.
 */
export interface Handling<Event, Tx, State = undefined> extends HandledEvent<Event>, InTransaction<Tx> {
  /** The object as of this event, or as it is now where `applyIfNewer` had to ask; else undefined. */
  readonly object: State;
}

/** What a handler of several events is given: with `together` in its options. They are done together, or none of them is. */
export interface HandlingTogether<Event, Tx> extends InTransaction<Tx> {
  /** One or more, each with what belongs to it. */
  readonly events: readonly HandledEvent<Event>[];
}

/** Runs inside a database transaction: call nothing over the network here, enqueue a job for that. */
export type Handler<Event, Tx, State = undefined> = (handling: Handling<Event, Tx, State>) => unknown;

/** The same for several events at once, which one statement can often serve. */
export type TogetherHandler<Event, Tx> = (handling: HandlingTogether<Event, Tx>) => unknown;

/** What grows with every change of an object. Numbers are compared as numbers, text bytewise. */
export type Version = number | bigint | string | Date;

/**
 * Events come in any order. With this, a handler is called only for what is newer than all that it was called
 * for before, object by object; older events are done without it.
 */
export interface ApplyIfNewer<Event, State> {
  /** Whose versions are compared: the object's id. */
  id(event: Event): string;
  /** The object as the event shows it. */
  object(event: Event): State;
  /**
   * Left out: nothing is known of the order, and every event but an object's first is a tie. Stripe's `created`
   * has whole seconds, so that two changes of one second tie.
   */
  version?(event: Event): Version;
  /** True for an event after which nothing is newer, such as a deletion. */
  final?(event: Event): boolean;
  /**
   * The object as it is now, from the sender, for ties: then the handler gets this one. Called outside of any
   * transaction. `"none"` says that versions never tie: an equal one is the same state again, and is skipped.
   */
  refetch: "none" | ((event: Event, tools: { readonly signal: AbortSignal }) => Promise<State>);
}

/** How attempts are made. */
export interface AttemptOptions {
  /** After so many the task is dead. Default 30, which the backoff spreads over about three days. */
  readonly maxAttempts?: number | undefined;
  readonly backoff?: Backoff | undefined;
  /** An attempt that takes longer has failed. Milliseconds, or text such as "30 seconds". */
  readonly deadline?: number | string | undefined;
}

export interface HandlerOptions<Event, State = undefined> extends AttemptOptions {
  /**
   * Names the handler in the ledger; default: what it is registered for. It is part of the identity of
   * what runs, so keep it when you rename things.
   */
  readonly name?: string | undefined;
  /** Left out: as the source says. */
  readonly answer?: AnswerMode | undefined;
  /**
   * Events for which this returns the same text run one after another, in the order they were recorded: say, by
   * the id of a subscription. Undefined: this event belongs to no group. It is asked when the event comes in.
   */
  readonly serialBy?: ((event: Event) => string | undefined) | undefined;
  readonly applyIfNewer?: ApplyIfNewer<Event, State> | undefined;
  readonly together?: undefined;
}

export interface TogetherHandlerOptions<Event> extends Omit<
  HandlerOptions<Event>,
  "applyIfNewer" | "together"
> {
  /**
   * Up to so many events share a call of the handler and a transaction: those that come while another one is under
   * way, so that nobody waits for more to come. If it fails, each is handled by itself; what was tried before is, too.
   */
  readonly together: number;
  readonly applyIfNewer?: undefined;
}

/** A type of event, or the beginning of some with a `*` after it. */
export type TypeOrPattern<Events> = (keyof Events & string) | `${string}*`;

/** The event that a handler of this type or pattern gets; for a pattern of unknown types, any event. */
export type EventOf<Events, P extends string> = P extends keyof Events
  ? Events[P]
  : P extends `${infer Prefix}*`
    ? [Extract<keyof Events, `${Prefix}${string}`>] extends [never]
      ? Events[keyof Events]
      : Events[Extract<keyof Events, `${Prefix}${string}`>]
    : never;
