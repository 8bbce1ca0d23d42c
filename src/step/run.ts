import { Fatal, messageOf } from "../errors.ts";
import { lazily } from "../lazily.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import type { Finish, Run } from "../worker/lane.ts";
import { makeStep, type Steps } from "./make.ts";
import type { Step } from "./step.ts";
import { encodeValue } from "./value.ts";

interface StepsAndSignal<Tx> {
  readonly step: Step<Tx>;
  readonly signal: AbortSignal;
}

/** Adds to what a function is given its steps, and the signal that tells it to stop. */
export type WithSteps<Tx> = <Own extends object>(own: Own) => Own & StepsAndSignal<Tx>;

const withSteps = lazily<{ made(): Steps<unknown>; run: Run }, StepsAndSignal<unknown>>({
  step: ({ made }) => made().step,
  signal: ({ run }) => run.signal,
});

/**
 * Runs one attempt of a function that has steps, and says how it ended: its value, or that it sleeps or waits. The
 * steps are made when the function asks for them; most short jobs never do.
 */
export function runSteps<Tx, T>(
  engine: Engine<Tx>,
  task: ClaimedTask,
  run: Run,
  fn: (tools: WithSteps<Tx>) => T | Promise<T>,
): Promise<Finish> {
  return new Promise((resolve, reject) => {
    let steps: Steps<Tx> | undefined;
    const made = (): Steps<Tx> => {
      if (!steps) {
        steps = makeStep(engine, task, run);
        steps.suspended.then(resolve, reject);
      }
      return steps;
    };
    const work = async (): Promise<Finish> => {
      let value: T;
      try {
        value = await fn((own) => withSteps(own, { made, run }) as never);
      } catch (error) {
        await steps?.ended("threw");
        throw error;
      }
      // What earlier attempts left and this one did not ask for is worth a warning.
      await (task.steps.length > 0 ? made() : steps)?.ended("returned");
      return { finish: "complete", result: encodedResult(value) };
    };
    work().then(resolve, reject);
  });
}

/** As with a step: trying again would repeat what was done, and end here again. */
function encodedResult(value: unknown): string | undefined {
  try {
    return encodeValue(value);
  } catch (error) {
    throw new Fatal(`What the function returned cannot be kept. ${messageOf(error)}`, { cause: error });
  }
}
