import { checkMs } from "../ledger/check.ts";
import type { TaskIdentity, TaskState } from "../ledger/task.ts";
import type { RecoveryContext } from "./context.ts";

export type StuckReason =
  | "lease run out"
  | "waiting for its group"
  | "no worker seen"
  | "no handler"
  | "no free worker"
  | "unknown outcome"
  | "dead";

export interface Stuck {
  readonly groups: readonly {
    readonly reason: StuckReason;
    readonly scope: string;
    readonly count: number;
    readonly oldest_at: string;
  }[];
  /** At most so many of each reason as were asked for, the oldest first. */
  readonly tasks: readonly StuckTask[];
  /** Events whose type had no handler when they came. `handled`: by now it has one here, so replay them. */
  readonly ignored: readonly {
    readonly scope: string;
    readonly type: string | null;
    readonly count: number;
    readonly oldest_at: string;
    readonly handled: boolean;
  }[];
}

export interface StuckTask extends TaskIdentity {
  readonly reason: StuckReason;
  /** Since when it should have moved. */
  readonly since: string;
  readonly type: string | null;
  readonly state: TaskState;
  readonly attempt: number;
  readonly tries: number;
  readonly held_by: string | null;
  readonly error: string | null;
  /** The key of the task of its group that comes first. */
  readonly behind: string | null;
  readonly behind_state: TaskState | null;
}

export interface StuckOptions {
  /** What is late by less is not stuck yet. Default a minute. */
  readonly olderThanMs?: number | undefined;
  readonly lane?: string | undefined;
  /** So many tasks of each reason. Default 100. */
  readonly max?: number | undefined;
}

export async function findStuck(context: RecoveryContext, options: StuckOptions = {}): Promise<Stuck> {
  const { olderThanMs = 60_000, lane, max = 100 } = options;
  checkMs("olderThanMs", olderThanMs);
  await context.engine.ready();
  const { verbs } = context.engine.ledger;
  const found = await verbs.call<Stuck>("stuck", [`${olderThanMs} milliseconds`, String(max), lane]);
  return {
    ...found,
    ignored: found.ignored.map((one) => ({ ...one, handled: isHandled(context, one.scope, one.type) })),
  };
}

/** Whether a type of event has a handler in this process. */
export function isHandled({ sources }: RecoveryContext, scope: string, type: string | null): boolean {
  // What came under a known id with other content has its handler, and is kept for people to look at.
  if (scope.includes("/!")) return false;
  return sources.get(scope.split("/", 1)[0] ?? "")?.handles(type ?? "") === true;
}
