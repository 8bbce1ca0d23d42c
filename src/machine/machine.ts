import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import type { MachineDefinition } from "./definition.ts";
import { type AnyDefinition, MachineRunner } from "./runner.ts";

export type { MachineDefinition, Moving } from "./definition.ts";

export interface MoveOptions<Data, Tx> {
  /** Move inside this open transaction: it commits with the rest of it, or not at all. Left out: in one of its own. */
  readonly tx?: Tx | undefined;
  /** The task that brings the move about; kept in the history. */
  readonly cause?: TaskIdentity | undefined;
  /** Only if the subject is still at this version. */
  readonly version?: number | undefined;
  /** Handed to the effects of the move. */
  readonly data?: Data;
}

/** A move that its state does not allow is a value, not an error: `state` says where the subject is instead. */
export type Moved<State extends string> =
  | { readonly outcome: "moved"; readonly from: State; readonly state: State; readonly version: number }
  | { readonly outcome: "refused"; readonly state: State; readonly version: number };

export interface Standing<State extends string> {
  readonly state: State;
  /** Counts its moves; 0 for a subject that was never moved. */
  readonly version: number;
  /** When it entered this state; null where it was never moved. */
  readonly since: Date | null;
  /** What moves it if it stays, soonest first. */
  readonly timers: readonly { readonly key: string; readonly at: Date | null }[];
}

export interface PastMove<State extends string, Move extends string> {
  readonly version: number;
  readonly move: Move;
  readonly from: State;
  readonly to: State;
  readonly at: Date;
  /** The task that brought it about, as "scope key". */
  readonly cause: string | null;
}

/** Guarded states of subjects: a move happens once, only from the states that allow it. */
export interface Machine<State extends string, Moves, Tx = unknown> {
  readonly name: string;
  /**
   * Moves a subject if its state allows it. The move, the timers of the state it enters and all that the move's
   * `run` does are one commit.
   */
  move<Name extends keyof Moves & string>(
    subject: string,
    move: Name,
    ...options: undefined extends Moves[Name]
      ? [options?: MoveOptions<Moves[Name], Tx>]
      : [options: MoveOptions<Moves[Name], Tx> & { readonly data: Moves[Name] }]
  ): Promise<Moved<State>>;
  state(subject: string, options?: { readonly tx?: Tx }): Promise<Standing<State>>;
  /** Every move of a subject, the oldest first. */
  history(subject: string, options?: { readonly tx?: Tx }): Promise<PastMove<State, keyof Moves & string>[]>;
}

/** Makes a machine. Its timers are run by the engine's worker. */
export function defineMachine<State extends string, Moves, Tx>(
  engine: Engine<Tx>,
  name: string,
  definition: MachineDefinition<State, Moves, Tx>,
): Machine<State, Moves, Tx> {
  const runner = new MachineRunner(engine, name, definition as unknown as AnyDefinition<Tx>);
  engine.addLane({ name: runner.scope, run: (task, run) => runner.runTimer(task, run) });
  return runner as unknown as Machine<State, Moves, Tx>;
}
