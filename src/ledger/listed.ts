/** The shapes of tasks as people look for them. */
import type { Claim, TaskState } from "./task.ts";

export interface ListFilter {
  readonly lane?: string | undefined;
  readonly state?: TaskState | undefined;
  readonly type?: string | undefined;
  /** In the key. */
  readonly contains?: string | undefined;
  /** In the reason of a failure or of being parked. */
  readonly reason?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** The `created_at` of the last task of the page before. */
  readonly before?: string | undefined;
  readonly max?: number | undefined;
}

export interface ListedTask extends Claim {
  readonly type: string | null;
  readonly state: TaskState;
  readonly tries: number;
  readonly generation: number;
  readonly created_at: string;
  readonly due_at: string | null;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  readonly serial: string | null;
  readonly behind: string | null;
  /** "backfill" where it never arrived and was fetched. */
  readonly origin: string | null;
  readonly cause: string | null;
  readonly held_by: string | null;
  readonly reason: string | null;
}
