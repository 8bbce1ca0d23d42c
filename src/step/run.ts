import { Fatal, messageOf } from "../errors.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import type { Finish, Run } from "../worker/lane.ts";
import { makeStep } from "./make.ts";
import type { Step } from "./step.ts";
import { encodeValue } from "./value.ts";

/** Runs one attempt of a function that has steps, and says how it ended: its value, or that it sleeps or waits. */
export async function runSteps<Tx, T>(
  engine: Engine<Tx>,
  task: ClaimedTask,
  run: Run,
  fn: (step: Step<Tx>) => T | Promise<T>,
): Promise<Finish> {
  const { step, suspended, ended } = makeStep(engine, task, run);
  const work = async (): Promise<Finish> => {
    let value: T;
    try {
      value = await fn(step);
    } catch (error) {
      await ended("threw");
      throw error;
    }
    await ended("returned");
    return { finish: "complete", result: encodedResult(value) };
  };
  return Promise.race([work(), suspended]);
}

/** As with a step: trying again would repeat what was done, and end here again. */
function encodedResult(value: unknown): string | undefined {
  try {
    return encodeValue(value);
  } catch (error) {
    throw new Fatal(`What the function returned cannot be kept. ${messageOf(error)}`, { cause: error });
  }
}
