import type { NewTask, TaskIdentity } from "../ledger/task.ts";

export interface EnqueueOptions {
  /** Enqueued again with this key, it is a duplicate. Left out: every call is a new task. */
  readonly key?: string | undefined;
  /** Milliseconds, or text such as "3 days". */
  readonly delay?: number | string | undefined;
  readonly at?: Date | undefined;
  /** Higher runs first among the tasks of this job. */
  readonly priority?: number | undefined;
  /** Tasks of one serial group run one after another, in the order they were enqueued. */
  readonly serial?: string | undefined;
}

/** A job as others see it: a name, and a way to make a task of an input. */
export interface Job<Input = unknown, Result = unknown> {
  readonly name: string;
  /** The scope of its tasks: `job/<name>`. */
  readonly scope: string;
  /** Checks the input and makes the task that would run it; whoever calls it records the task. */
  task(input: Input, options?: EnqueueOptions & { readonly cause?: TaskIdentity | undefined }): Promise<NewTask>;
  /** Only here so that the type of the result travels with the job. */
  readonly result?: Result | undefined;
}
