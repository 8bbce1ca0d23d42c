import type { Enqueued, EnqueueOptions, Job, JobReference } from "../job/job.ts";
import type { TaskIdentity } from "../ledger/task.ts";

/**
 * A subject's states and the moves between them.
 *
 * @example
 * {
 *   initial: "new",
 *   states: {
 *     new: {},
 *     active: {},
 *     past_due: { after: { "1 day": "remind", "3 days": "remind", "7 days": "cancel" } },
 *     canceled: {},
 *   },
 *   moves: {
 *     activate: { from: ["new", "past_due"], to: "active" },
 *     fail: { from: ["active"], to: "past_due" },
 *     remind: { from: ["past_due"], to: "past_due", run: ({ enqueue, subject }) => enqueue(mail, { subject }) },
 *     cancel: { from: ["active", "past_due"], to: "canceled" },
 *   },
 * }
 */
export interface MachineDefinition<State extends string, Moves, Tx> {
  /** The state of a subject that was never seen. */
  readonly initial: NoInfer<State>;
  readonly states: Readonly<Record<State, StateDefinition<WithoutData<Moves>>>>;
  /** By name; `Moves` says of each what it is given as `data`. */
  readonly moves: { readonly [Name in keyof Moves]: MoveDefinition<NoInfer<State>, Moves[Name], Tx> };
}

/** The moves that need no `data`: a timer has none to give. */
export type WithoutData<Moves> = {
  [Name in keyof Moves]: undefined extends Moves[Name] ? Name : never;
}[keyof Moves] &
  string;

export interface StateDefinition<Move extends string> {
  /**
   * Moves that happen by themselves if the subject stays in this state: a duration such as "3 days", counted
   * from when the state was entered, and the move. Leaving the state cancels them.
   */
  readonly after?: Readonly<Record<string, NoInfer<Move>>>;
}

export interface MoveDefinition<State extends string, Data, Tx> {
  readonly from: readonly State[];
  readonly to: State;
  /**
   * A move from a state to itself leaves the timers of that state as they are, so that "3 days" goes on counting
   * from when it was entered. True: they start anew.
   */
  readonly restart?: boolean;
  /**
   * The effects of the move, in its transaction: both are committed, or neither is. Call nothing over the network
   * here; enqueue a job for that.
   */
  readonly run?: (moving: Moving<Data, Tx, State>) => unknown;
}

/** What the effects of a move are given. */
export interface Moving<Data = undefined, Tx = unknown, State extends string = string> {
  readonly subject: string;
  readonly from: State;
  /** The state that it has now. */
  readonly state: State;
  /** Counts the moves of this subject, from 1. */
  readonly version: number;
  /** What the caller of `move` handed over. */
  readonly data: Data;
  /** Where a timer makes the move: its duration as it was declared, such as "3 days". */
  readonly after: string | undefined;
  /** The task that brings the move about, where that is known: to hand on to further moves. */
  readonly cause: TaskIdentity | undefined;
  /** Your database's own kind of transaction. */
  readonly tx: Tx;
  /** Has a job run after the commit. */
  enqueue<Input>(job: Job<Input>, input: NoInfer<Input>, options?: EnqueueOptions): Promise<Enqueued>;
  enqueue(job: Job<void>): Promise<Enqueued>;
  enqueue(job: JobReference, input?: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  /** True for whoever takes this effect key first; false ever after. */
  once(effectKey: string): Promise<boolean>;
}
