import { OncewardError } from "../errors.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import type { Verbs } from "../ledger/verbs.ts";
import type { Moving } from "./definition.ts";

/** What can be done inside a transaction besides writing rows: jobs and effect keys that commit with it. */
export interface Effects extends Pick<Moving, "enqueue" | "once"> {
  /** The scopes of what was enqueued and is due: to be announced after the commit. */
  readonly due: ReadonlySet<string>;
  /** From now on they refuse: their statements would end up outside the transaction. */
  close(): void;
}

export function effectsWithin(verbs: Verbs, cause: TaskIdentity | undefined): Effects {
  const due = new Set<string>();
  let open = true;
  const checkOpen = (): void => {
    if (open) return;
    throw new OncewardError(
      "config_invalid",
      "enqueue or once was called after the move had ended, so it is not part of its transaction: await it.",
    );
  };
  return {
    due,
    close: () => {
      open = false;
    },
    async enqueue(job, input, options) {
      const task = await job.task(input, { ...options, cause });
      checkOpen();
      const [recorded] = await verbs.record([task]);
      if (recorded?.outcome === "recorded" && !task.delayMs && !task.dueAt) due.add(task.scope);
      const outcome = recorded?.outcome === "duplicate" ? "duplicate" : "enqueued";
      return { outcome, scope: task.scope, key: task.key };
    },
    async once(effectKey) {
      checkOpen();
      return verbs.once(effectKey, { cause });
    },
  };
}
