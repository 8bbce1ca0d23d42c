/** Why an action has no value for its caller, and what to do. Keys and inputs can be personal: messages hold neither. */
import { OncewardError } from "../errors.ts";
import type { NewTask, TaskState } from "../ledger/task.ts";
import type { Verbs } from "../ledger/verbs.ts";

/** The key was used with another input. */
export async function conflict(verbs: Verbs, task: NewTask): Promise<OncewardError> {
  const known = await verbs.look(task);
  return new OncewardError(
    "input_conflict",
    `This key of ${task.scope} was used with another input before: its fingerprint was ${String(known?.["fingerprint"])}, ` +
      `that of this call is ${task.fingerprint}. Nothing was run. A key stands for one action with one input: use another ` +
      "key for another action, and leave out of the input what differs from call to call (times, request ids).",
  );
}

/** It has ended without a value, and stays so until somebody acts. */
export function parked(task: NewTask, state: TaskState, reason = "no reason was kept"): OncewardError {
  if (state === "unknown") return new OncewardError("outcome_unknown", reason);
  if (state === "cancelled") return new OncewardError("cancelled", `The action was cancelled: ${reason}`);
  return new OncewardError(
    "fatal",
    `The action is ${state}: ${reason} It is not tried again by itself. Mend the cause and replay it ` +
      `(select onceward.replay('${task.scope}', key)); the next call then goes on from its last finished step.`,
  );
}

/** It is not done yet. */
export function notYet(outcome: "running" | "waiting"): OncewardError {
  return outcome === "running"
    ? new OncewardError(
        "already_running",
        "Another caller is running this action. Call again with the same key for its result.",
      )
    : new OncewardError(
        "still_waiting",
        "The action sleeps or waits for a signal. Call again with the same key once it can go on.",
      );
}
