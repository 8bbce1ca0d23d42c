import type { NewTask, TaskIdentity } from "../ledger/task.ts";
import type { Step } from "../step/step.ts";
import type { Backoff } from "../worker/lane.ts";
import type { Schema } from "./schema.ts";

export interface EnqueueOptions {
  /** Enqueued again with this key, it is a duplicate. Left out: as the job says; else every call is a new task. */
  readonly key?: string | undefined;
  /** Milliseconds, or text such as "3 days". */
  readonly delay?: number | string | undefined;
  readonly at?: Date | undefined;
  /** Higher runs first among the tasks of this job. */
  readonly priority?: number | undefined;
  /** Tasks of one serial group run one after another, in the order they were enqueued. */
  readonly serial?: string | undefined;
}

/** What became of something that was enqueued. A duplicate is an answer, not an error. */
export interface Enqueued extends TaskIdentity {
  readonly outcome: "enqueued" | "duplicate";
}

/** A job as others see it: a name, and a way to make a task of an input. */
export interface Job<Input = unknown, Result = unknown> {
  readonly name: string;
  /** The scope of its tasks: `job/<name>`. */
  readonly scope: string;
  /** Checks the input and makes the task that would run it; whoever calls it records the task. */
  task(input: Input, options?: TaskOptions): Promise<NewTask>;
  /** Only here so that the type of the result travels with the job. */
  readonly result?: Result | undefined;
}

export interface TaskOptions extends EnqueueOptions {
  /** The task that enqueues it, for people who look. */
  readonly cause?: TaskIdentity | undefined;
  /** The task that enqueues it and may be tried again: without a key of its own, a retry makes the same task. */
  readonly parent?: (TaskIdentity & { readonly generation: number }) | undefined;
}

/** A job by its name. Where it is defined in another process, what its definition says (schema, serial, …) is not known here. */
export interface JobReference {
  readonly name: string;
  /** What has one is a job, whose input has a type. */
  readonly task?: undefined;
}

/** How a job runs. `Input` is what its function gets. */
export interface JobOptions<Input> {
  /**
   * What the input must be: a schema of any library that speaks Standard Schema (Zod, Valibot, ArkType, …). Checked when it is
   * enqueued, and again when it runs, since code and waiting tasks change apart from each other.
   */
  readonly input?: Schema | undefined;
  /** Two inputs with the same key are one task, for ever: say, by the id of the order. */
  readonly key?: ((input: Input) => string) | undefined;
  /** After so many attempts the task is dead. Default 30, which the backoff spreads over about three days. */
  readonly maxAttempts?: number | undefined;
  /** Default: 2 s, doubled each time up to 4 h, with jitter. */
  readonly backoff?: Backoff | undefined;
  /** An attempt that takes longer has failed. Milliseconds, or text such as "30 seconds". */
  readonly deadline?: number | string | undefined;
  readonly concurrency?: Concurrency<Input> | undefined;
  /** Tasks with the same text run one after another, in the order they were enqueued; undefined: in no group. */
  readonly serial?: ((input: Input) => string | undefined) | undefined;
  /** From -9999 to 9999; higher runs first among the tasks of this job. Default 0. */
  readonly priority?: number | undefined;
  /** At most so many starts in that time, across all processes. */
  readonly rate?: { readonly limit: number; readonly per: number | string } | undefined;
  /** How long after it was enqueued it may run. Milliseconds, or text such as "5 minutes". */
  readonly delay?: number | string | undefined;
}

/** How many tasks of a job may run at once. */
export interface Concurrency<Input> {
  /** Across all processes. */
  readonly total?: number | undefined;
  /** Across all processes, of those with the same key. */
  readonly perKey?: { readonly key: (input: Input) => string; readonly limit: number } | undefined;
  readonly perProcess?: number | undefined;
}

/** What a job's function is given. */
export interface JobTools<Input = unknown, Tx = unknown> {
  readonly input: Input;
  /** Keeps the result of a named part, so that a later attempt does not run it again. */
  readonly step: Step<Tx>;
  /** The key it was enqueued with, or was given. */
  readonly key: string;
  /** Counts the attempts of this task, from 1. */
  readonly attempt: number;
  /** Aborts when the claim is lost, the deadline has passed, or the process stops. */
  readonly signal: AbortSignal;
  /**
   * Enqueues a job on behalf of this one. Without a key it is one task for each job, input and time, however
   * often this job is tried: give keys where the same is wanted twice. With `tx` it commits with that transaction.
   */
  readonly enqueue: Enqueue;
}

export interface Enqueue {
  <Input>(
    job: Job<Input>,
    input: NoInfer<Input>,
    options?: EnqueueOptions & WithinTransaction,
  ): Promise<Enqueued>;
  (job: Job<void>): Promise<Enqueued>;
  (job: JobReference, input?: unknown, options?: EnqueueOptions & WithinTransaction): Promise<Enqueued>;
}

export interface WithinTransaction {
  /** Your own open transaction (pg, postgres.js, PGlite, Drizzle, Kysely, Prisma): the task commits with it, or not at all. */
  readonly tx?: unknown;
}

export type JobFunction<Input, Result, Tx> = (tools: JobTools<Input, Tx>) => Result | Promise<Result>;
