/** The same task recorded by several callers at once is one item of a statement. */
import { isBytes } from "../bytes.ts";
import type { Joining } from "./coalesce.ts";
import type { NewTask, Recorded, TaskIdentity } from "./task.ts";

/** A lock that one waits for is on a row, and rows are told apart well enough by their keys. */
export function nameOf({ key }: TaskIdentity): string {
  return key;
}

/**
 * Who records what is just being sent waits for that, as the duplicate that it is. A thousand deliveries of one event
 * then cost the database as much as one, and do not stand before others in the line. What has been sent is not joined:
 * the ledger may have changed since it answered.
 */
export const equalTasks: Joining<NewTask, Recorded> = { isEqual, asJoined };

/** Whether nothing at all tells them apart: content that differs is for the ledger to judge. */
function isEqual(a: NewTask, b: NewTask): boolean {
  return hasAllOf(a, b) && hasAllOf(b, a);
}

function hasAllOf(a: NewTask, b: NewTask): boolean {
  for (const name in b) {
    // The body says it too.
    if (name !== "input" && !isSame(a[name as keyof NewTask], b[name as keyof NewTask])) return false;
  }
  return true;
}

function isSame(a: NewTask[keyof NewTask], b: NewTask[keyof NewTask]): boolean {
  if (a === b) return true;
  if (isBytes(a) && isBytes(b)) return Buffer.compare(a, b) === 0;
  return a instanceof Date && b instanceof Date && a.getTime() === b.getTime();
}

/** What the ledger would say a moment after it has said this. */
function asJoined(first: Recorded): Recorded {
  if (first.outcome === "claimed") return { outcome: "duplicate", state: "running" };
  if (first.outcome === "recorded") return { outcome: "duplicate", state: first.state ?? "waiting" };
  return first;
}
