import { checkIdentity } from "../ledger/check.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import type { ListedTask } from "../ledger/listed.ts";
import type { Engine } from "../worker/engine.ts";
import { filterJson, type TaskFilter } from "./filter.ts";

export interface Page {
  /** At most so many. Default 100. */
  readonly max?: number | undefined;
  /** The last task of the page before. */
  readonly before?: Pick<ListedTask, "created_at" | "scope" | "key"> | undefined;
}

export async function listTasks(engine: Engine, filter: TaskFilter & Page = {}): Promise<ListedTask[]> {
  const { max = 100, before, ...rest } = filter;
  await engine.ready();
  const page = before && JSON.stringify([before.created_at, before.scope, before.key]);
  return engine.ledger.verbs.call("find", [filterJson(rest), page, String(max)]);
}

/** Nobody knows the scope of an event at three in the morning: every task with this key. */
export async function findTasks(engine: Engine, key: string): Promise<TaskIdentity[]> {
  checkIdentity("any", key);
  await engine.ready();
  const scopes = await engine.ledger.verbs.call<string[]>("whereis", [key]);
  return scopes.map((scope) => ({ scope, key }));
}
