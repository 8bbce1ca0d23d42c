import type { TaskIdentity } from "../ledger/task.ts";
import type { Recovery } from "../recover/recovery.ts";

/**
 * The tasks that a key means. Events are known by their key alone, but one with several handlers has a task for each
 * besides its own, so there can be more than one.
 */
export async function locate(
  recovery: Recovery,
  key: string,
  scope: string | undefined,
): Promise<readonly TaskIdentity[]> {
  return scope === undefined ? recovery.find(key) : [{ scope, key }];
}

/** The event's own task among those of its handlers: who runs it again runs theirs. */
export function eventItself(tasks: readonly TaskIdentity[]): readonly TaskIdentity[] {
  return tasks.filter(({ scope }) => !/\/[#!]/.test(scope));
}
