import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import type { NewTask } from "../ledger/task.ts";
import { runSteps } from "../step/run.ts";
import type { Engine } from "../worker/engine.ts";
import type { Lane } from "../worker/lane.ts";
import { checkOptions } from "./check.ts";
import { enqueuer } from "./enqueue.ts";
import { checkInput, encodeInput, readInput } from "./input.ts";
import type { Job, JobFunction, JobOptions, TaskOptions } from "./job.ts";
import { childKey, newKey } from "./key.ts";
import type { Schema, SchemaInput, SchemaOutput } from "./schema.ts";

/**
 * Defines a job: a function that runs later, in whatever process has room, until it has succeeded. The
 * type of its input comes from the schema, or from the annotation of the function.
 *
 * @example
 * const sendDownload = defineJob(engine, "send-download", async ({ input, step }: JobTools<{ session: string }>) => {
 *   const file = await step("render", () => render(input.session));
 *   await step("mail", ({ key }) => mailer.send({ to: file.owner, messageId: key }));
 * });
 */
export function defineJob<Tx, Result, Input = unknown>(
  engine: Engine<Tx>,
  name: string,
  fn: JobFunction<Input, Result, Tx>,
): Job<Input, Result>;
export function defineJob<Tx, S extends Schema, Result>(
  engine: Engine<Tx>,
  name: string,
  options: JobOptions<SchemaOutput<S>> & { readonly input: S },
  fn: JobFunction<SchemaOutput<S>, Result, Tx>,
): Job<SchemaInput<S>, Result>;
export function defineJob<Tx, Result, Input = unknown>(
  engine: Engine<Tx>,
  name: string,
  options: JobOptions<NoInfer<Input>> & { readonly input?: undefined },
  fn: JobFunction<Input, Result, Tx>,
): Job<Input, Result>;
export function defineJob<Tx>(
  engine: Engine<Tx>,
  name: string,
  ...rest: [JobFunction<unknown, unknown, Tx>] | [JobOptions<unknown>, JobFunction<unknown, unknown, Tx>]
): Job {
  const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
  checkOptions(name, options);
  engine.addLane(laneOfJob(engine, name, options, fn));
  const job: Job = { name, scope: jobScope(name), task: (input, how) => makeTask(name, options, input, how) };
  const known = defined.get(engine) ?? new Map<string, Job>();
  defined.set(engine, known.set(name, job));
  return job;
}

const defined = new WeakMap<Engine, Map<string, Job>>();

/** The job of that name as it is defined here; one without options where it is defined elsewhere. */
export function jobNamed(engine: Engine, name: string): Job {
  const known = defined.get(engine)?.get(name);
  if (known) return known;
  checkOptions(name, {});
  return { name, scope: jobScope(name), task: (input, how) => makeTask(name, {}, input, how) };
}

export function jobScope(name: string): string {
  return `job/${name}`;
}

async function makeTask(
  name: string,
  options: JobOptions<unknown>,
  given: unknown,
  how: TaskOptions = {},
): Promise<NewTask> {
  const scope = jobScope(name);
  const { body, input } = encodeInput(name, given);
  const checked = await checkInput(name, body, options.input, given);
  const { concurrency: { total, perKey } = {} } = options;
  const delay = how.delay ?? (how.at ? undefined : options.delay);
  if (how.delay !== undefined && how.at !== undefined) {
    throw new OncewardError("value_invalid", "A task runs after a `delay` or `at` a time, not both.");
  }
  if (how.serial !== undefined && (perKey || total !== undefined)) {
    throw new OncewardError(
      "value_invalid",
      `Job ${name} limits its concurrency, so that it cannot run in a serial group as well.`,
    );
  }
  const delayMs = delay === undefined ? undefined : milliseconds(delay);
  const when = how.at?.toISOString() ?? String(delayMs ?? 0);
  const key =
    how.key ??
    options.key?.(checked) ??
    (how.parent ? childKey(how.parent, { scope, body, when }) : newKey());
  return {
    scope,
    key,
    body,
    input,
    delayMs,
    dueAt: how.at,
    priority: how.priority ?? options.priority,
    serial: how.serial ?? perKey?.key(checked) ?? options.serial?.(checked),
    slots: perKey?.limit ?? total,
    maxTries: options.maxAttempts,
    cause: how.cause ?? how.parent,
  };
}

function laneOfJob<Tx>(
  engine: Engine<Tx>,
  name: string,
  options: JobOptions<unknown>,
  fn: JobFunction<unknown, unknown, Tx>,
): Lane {
  const { concurrency = {}, rate, backoff, deadline } = options;
  const limit = {
    running: concurrency.total,
    rate: rate && { limit: rate.limit, perMs: milliseconds(rate.per) },
  };
  return {
    name: jobScope(name),
    concurrency: concurrency.perProcess,
    limit: limit.running !== undefined || limit.rate ? limit : undefined,
    backoff,
    deadlineMs: deadline === undefined ? undefined : milliseconds(deadline),
    async run(task, run) {
      const input = await readInput(name, task, options.input);
      return runSteps(engine, task, run, (tools) =>
        fn(tools({ input, key: task.key, attempt: task.attempt, enqueue: enqueuer(engine, task) })),
      );
    },
  };
}
