import type { TaskIdentity } from "./task.ts";

/** A state of an object that shall be applied if nothing newer was. */
export interface Newer extends TaskIdentity {
  readonly version?: string | undefined;
  readonly final?: boolean | undefined;
  /** After a tie: what was applied when the present state was asked for. */
  readonly revision?: number | undefined;
  readonly cause?: TaskIdentity | undefined;
}
