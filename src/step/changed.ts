import { OncewardError } from "../errors.ts";

/** Found before the new step runs: its effect may be one that the finished step has had already. */
export function stepsChanged(name: string, unasked: readonly string[]): OncewardError {
  return new OncewardError(
    "step_changed",
    `Step "${name}" is new, but ${listed(unasked)}, which an earlier attempt finished, was not asked for before it. ` +
      "The code has changed between attempts, or takes another way each time; going on could repeat an effect. " +
      "Keep the names and the order of steps that tasks under way may have finished, and add new ones after them; " +
      "let decide only what is the same in every attempt: the input, and what steps returned.",
  );
}

/** The kind of a step has changed under its name. */
export function stepOtherKind(name: string): OncewardError {
  return new OncewardError(
    "step_changed",
    `Step "${name}" was a sleep or a wait in an earlier attempt and is something else now. ` +
      "The code has changed between attempts: give the new step a name of its own.",
  );
}

/** All is done by now, so that failing would help nobody; but somebody should know. */
export function warnUnasked(scope: string, unasked: readonly string[]): void {
  process.emitWarning(
    `A task of ${scope} has finished without asking for ${listed(unasked)}, which an earlier attempt had finished. ` +
      "The code has changed between attempts: if the step was renamed, its effect took place twice.",
    { type: "OncewardWarning", code: "ONCEWARD_STEP_CHANGED" },
  );
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).map((name) => `"${name}"`);
  return names.length > shown.length ? `${shown.join(", ")} and others` : shown.join(", ");
}
