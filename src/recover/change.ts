import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import { encodeValue } from "../step/value.ts";
import { type By, checkBy } from "./context.ts";
import { replayTasks } from "./replay.ts";

export interface Cancelled extends TaskIdentity {
  /** Or the state that it was found in, and left in. */
  readonly outcome: string;
}

/** What has not finished shall not run any more; a run that is under way can write nothing from now on. */
export async function cancelTasks(
  engine: Engine,
  tasks: readonly TaskIdentity[],
  by: By,
): Promise<readonly Cancelled[]> {
  checkBy(by);
  await engine.ready();
  const cancelled: Cancelled[] = [];
  for (const { scope, key } of tasks) {
    const { actor, reason } = by;
    const { outcome } = await engine.ledger.verbs.cancel(
      { scope, key },
      { actor, ...(reason !== undefined && { reason }) },
    );
    cancelled.push({ scope, key, outcome });
  }
  return cancelled;
}

export interface Answer extends By {
  readonly step: string;
  /** `done`: it took place, so its value is kept. `not done`: it did not, so it runs again. */
  readonly decision: "done" | "not done";
  readonly value?: unknown;
}

/** A person says what became of a step whose outcome nobody knew; then the task goes on. */
export async function resolveStep(
  engine: Engine,
  task: TaskIdentity,
  answer: Answer,
): Promise<{ outcome: "resolved" | "missing" }> {
  checkBy(answer);
  await engine.ready();
  const { step, decision, actor, reason } = answer;
  const value = decision === "done" ? encodeValue(answer.value) : undefined;
  const resolved = await engine.ledger.verbs.resolveStep(task, {
    name: step,
    decision,
    actor,
    ...(value !== undefined && { value }),
    ...(reason !== undefined && { reason }),
  });
  if (resolved.outcome === "resolved") {
    const why = `step ${step} was resolved: ${decision}`;
    await replayTasks(engine, [task], { actor, reason: reason ?? why });
  }
  return resolved;
}
