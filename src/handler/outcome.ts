import type { TaskState } from "../ledger/task.ts";

/**
 * What became of an event that a sender delivered.
 *
 * accepted   recorded; a worker runs it
 * done       its handler has run, for this very delivery
 * duplicate  known: done before, or in good hands
 * ignored    kept, and not run: its type has no handler
 * parked     given up before, and kept with its reason: the sender cannot help it by trying again
 * conflict   its id is known with other content: kept apart, and not run
 * failed     inline: a handler failed; the sender, or a worker, tries again
 * busy       inline: somebody else is running it, or everybody is busy
 */
export type Outcome =
  | "accepted"
  | "done"
  | "duplicate"
  | "ignored"
  | "parked"
  | "conflict"
  | "failed"
  | "busy";

/** What a delivery of something finished is told; undefined while it can still run. */
export function outcomeOfState(state: TaskState): Outcome | undefined {
  if (state === "done") return "duplicate";
  if (state === "ignored") return "ignored";
  return state === "waiting" || state === "running" ? undefined : "parked";
}

/** What counts among several handlers of one event: what the sender should still do something about. */
const weight: Readonly<Partial<Record<Outcome, number>>> = { failed: 4, busy: 3, parked: 2, done: 1 };

export function gravest(outcomes: readonly Outcome[]): Outcome {
  return outcomes.reduce((worst, one) => ((weight[one] ?? 0) > (weight[worst] ?? 0) ? one : worst));
}
