import type { TaskState } from "./task.ts";

/** What can be forgotten; sql/011_prune.sql says what each is. */
export type Prunable = "payloads" | "steps" | "keys" | "log" | "audit" | "moves" | "effects";

export interface PruneOptions {
  readonly what: Prunable;
  readonly olderThanMs: number;
  readonly lane?: string | undefined;
  /** Only of tasks in these states. */
  readonly states?: readonly TaskState[] | undefined;
  /** Lanes that have a rule of their own. */
  readonly exceptLanes?: readonly string[] | undefined;
  /** Also keys that somebody chose: an action's, and a job's that was enqueued with one. */
  readonly chosen?: boolean | undefined;
  readonly after?: string | null | undefined;
  readonly max?: number | undefined;
  /** Only count. */
  readonly dryRun?: boolean | undefined;
  /** Who wants this and why, for the audit; only with a round's first call. */
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  /** Allows to forget keys that a sender may still repeat. */
  readonly override?: boolean | undefined;
}
