import type { TaskIdentity } from "../ledger/task.ts";
import type { Step } from "../step/step.ts";
import type { Backoff } from "../worker/lane.ts";

/** What an action's function is given. */
export interface ActionTools<Tx = unknown, Input = unknown> {
  readonly input: Input;
  readonly step: Step<Tx>;
  /** The action's key, as the caller gave it. */
  readonly key: string;
  readonly attempt: number;
  /** Counts the replays of the finished action. */
  readonly generation: number;
  /** Aborts when the claim is lost, the deadline has passed, or the caller gives up. */
  readonly signal: AbortSignal;
}

export type ActionFunction<T, Tx = unknown, Input = unknown> = (
  tools: ActionTools<Tx, Input>,
) => T | Promise<T>;

export interface ActionOptions<Input = unknown> {
  /** What the action is given. The same key with another input is refused: `input_conflict`. */
  readonly input?: Input | undefined;
  /** Keys are unique within a scope. Default `action`. */
  readonly scope?: string | undefined;
  /**
   * How long to wait for another caller who runs the action, or for a sleep or a signal in it; in ms or as
   * text. Default: as long as a crashed caller's claim can last, and a little more. `false`: not at all.
   */
  readonly wait?: number | string | false | undefined;
  /** After so many attempts that ended badly the action is dead. Default 30. */
  readonly maxAttempts?: number | undefined;
  /** An attempt that takes longer has failed. In ms or as text. */
  readonly deadline?: number | string | undefined;
  /** Only counts for whoever does not ask for the action by its key: a caller who does tries again at once. */
  readonly backoff?: Backoff | undefined;
  /** Ends the attempt, where it is this caller who runs it, and the waiting. */
  readonly signal?: AbortSignal | undefined;
  /** The task on whose behalf the action is taken. */
  readonly cause?: TaskIdentity | undefined;
}

export type ActionOutcome<T> =
  /** This caller has run it, or the last part of it. */
  | { readonly outcome: "done"; readonly value: T }
  /** It had been done: the value of then. */
  | { readonly outcome: "duplicate"; readonly value: T }
  /** Another caller is running it. */
  | { readonly outcome: "running" }
  /** It sleeps, or waits for a signal. It goes on with the first call after that. */
  | { readonly outcome: "waiting" };
