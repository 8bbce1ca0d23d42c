import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import { decodeValue, keep } from "../step/value.ts";
import { type Schema, validate } from "./schema.ts";

/** An input as the ledger keeps it, empty for undefined, and as it comes back from there. */
export function encodeInput(job: string, given: unknown): { body: string; input: unknown } {
  try {
    const { text = "", value } = keep(given);
    return { body: text, input: value };
  } catch (error) {
    throw new OncewardError("input_invalid", `The input of job ${job} cannot be kept. ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * The input as the job's function will get it: checked as it comes back from the ledger, so that what
 * was accepted runs.
 */
export async function checkInput(
  job: string,
  text: string,
  schema: Schema | undefined,
  input: unknown,
): Promise<unknown> {
  if (!schema) return input;
  const checked = await validate(schema, decodeInput(text)).catch((error: unknown) => {
    throw schemaThrew(job, error);
  });
  if ("value" in checked) return checked.value;
  throw new OncewardError(
    "input_invalid",
    `The input of job ${job} does not fit its schema ${checked.problems}.`,
  );
}

/** The input of a recorded task. What does not fit will not fit next time: the task is dead, to be replayed with other code. */
export async function readInput(
  job: string,
  task: ClaimedTask,
  schema: Schema | undefined,
): Promise<unknown> {
  if (task.body === null)
    throw new Fatal(`The payload of this task of job ${job} was pruned, so it cannot run.`);
  let { input } = task;
  try {
    input ??= decodeInput(
      typeof task.body === "string" ? task.body : Buffer.from(task.body).toString("utf8"),
    );
  } catch (error) {
    throw new Fatal(`The input of this task of job ${job} cannot be read as JSON.`, { cause: error });
  }
  if (!schema) return input;
  const checked = await validate(schema, input).catch((error: unknown) => {
    throw schemaThrew(job, error);
  });
  if ("value" in checked) return checked.value;
  throw new Fatal(`The input of this task no longer fits the schema of job ${job} ${checked.problems}.`);
}

/** Without what it said: messages of schemas repeat values, which can be personal. */
function schemaThrew(job: string, cause: unknown): OncewardError {
  return new OncewardError("input_invalid", `The schema of job ${job} threw instead of answering.`, {
    cause,
  });
}

function decodeInput(text: string): unknown {
  return text === "" ? undefined : decodeValue(text);
}
