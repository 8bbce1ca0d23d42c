import type { TaskIdentity } from "../ledger/task.ts";
import type { Recovery } from "../recover/recovery.ts";
import { plain } from "../terminal.ts";
import { Failure } from "./fail.ts";

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

/** The one task that a key means. */
export async function locateOne(
  recovery: Recovery,
  key: string,
  scope: string | undefined,
): Promise<TaskIdentity> {
  const [task, another] = await locate(recovery, key, scope);
  if (!task) throw noSuchTask(key);
  if (another) throw new Failure(`Several tasks have the key ${plain(key)}: say --scope.`);
  return task;
}

/** Somebody who looks for an event knows its id, which is not always its key. */
export function noSuchTask(key: string): Failure {
  const hint = key.startsWith("evt_")
    ? " What happens once to an object is known by type and object: look with onceward list --contains and the object's id."
    : "";
  return new Failure(`There is no task with the key ${plain(key)}.${hint}`);
}

/** A value that somebody typed. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new Failure(`--value is JSON, such as '{"id": 1}' or '"text"'.`);
  }
}
