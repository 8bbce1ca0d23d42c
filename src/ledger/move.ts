/** The shapes of a machine's subject: what moves it, and where it stands. */
import type { TaskIdentity, TaskState } from "./task.ts";

export interface Move {
  readonly machine: string;
  readonly subject: string;
  readonly move: string;
  readonly from: readonly string[];
  readonly to: string;
  readonly initial: string;
  readonly version?: number | undefined;
  readonly cause?: TaskIdentity | undefined;
  /** What moves the subject on if it stays in the state that it enters. */
  readonly timers?:
    | readonly { readonly move: string; readonly after: string; readonly delayMs: number }[]
    | undefined;
  /** The key of the timer's task that makes this move. */
  readonly timer?: string | undefined;
  /** A move within one state counts as entering it again. */
  readonly restart?: boolean | undefined;
}

export type Moved =
  | { readonly outcome: "moved"; readonly from: string; readonly state: string; readonly version: number }
  /**
   * Refused: not from this state. Early: a timer, while an earlier one of its state is due. Gone: a timer that is set,
   * but not from this state.
   */
  | { readonly outcome: "refused" | "early" | "gone"; readonly state: string; readonly version: number };

export interface MachineState {
  readonly state: string;
  readonly version: number;
  readonly since: string;
  readonly moves: readonly {
    version: number;
    move: string;
    from: string;
    to: string;
    cause: string | null;
    at: string;
  }[];
  /** What moves it if it stays, soonest first. */
  readonly timers: readonly { key: string; state: TaskState; due_at: string | null }[];
}
