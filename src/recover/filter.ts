import { OncewardError } from "../errors.ts";
import { accountSegment } from "../handler/scope.ts";
import type { TaskIdentity, TaskState } from "../ledger/task.ts";
import { causeOf } from "../ledger/argument.ts";

/** States to ask for. `failed` is no state of its own: the task waits for its next try after a failure. */
export type AskedState = TaskState | "failed";

export const askedStates: readonly AskedState[] = [
  "waiting",
  "failed",
  "running",
  "done",
  "dead",
  "unknown",
  "ignored",
  "cancelled",
];

/** Which tasks: everything that is said must hold. */
export interface TaskFilter {
  /** A scope and everything below it: `stripe`, `job/send-download`. */
  readonly lane?: string | undefined;
  readonly scope?: string | undefined;
  readonly key?: string | undefined;
  /** In the key. */
  readonly contains?: string | undefined;
  readonly states?: readonly AskedState[] | undefined;
  /** Of the event; `invoice.*` is every type that begins so. */
  readonly type?: string | undefined;
  /** The sender's account, as in its events. */
  readonly account?: string | undefined;
  /** In the error, in any case. */
  readonly error?: string | undefined;
  /** What it was enqueued by. */
  readonly cause?: TaskIdentity | undefined;
  /** When it was recorded. */
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

/** As the SQL verbs read it; undefined fields vanish. */
export function filterJson(filter: TaskFilter, more: Record<string, unknown> = {}): string {
  checkFilter(filter);
  const { account, cause, since, until, states, ...same } = filter;
  return JSON.stringify({
    ...same,
    states: states && [...states],
    account: account === undefined ? undefined : accountSegment(account),
    cause: cause && causeOf(cause),
    since: since?.toISOString(),
    until: until?.toISOString(),
    ...more,
  });
}

export function checkFilter({ states, since, until }: TaskFilter): void {
  const odd = states?.find((state) => !askedStates.includes(state));
  if (odd !== undefined || states?.length === 0)
    throw new OncewardError("value_invalid", `States are ${askedStates.join(", ")}.`);
  for (const date of [since, until]) {
    if (date !== undefined && (!(date instanceof Date) || Number.isNaN(date.getTime())))
      throw new OncewardError("value_invalid", "since and until are valid Dates.");
  }
}
