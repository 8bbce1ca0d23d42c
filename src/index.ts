export { createOnce, type Once, type OnceOptions } from "./once.ts";
export { Fatal, OncewardError, type ErrorCode } from "./errors.ts";
export type { Database, Queryable } from "./database/database.ts";
export type { Handler, HandlerOptions, Handling } from "./handler/handler.ts";
export type { ConnectedSource, SourceOptions } from "./handler/source.ts";
export type { Enqueued, EnqueueOptions, Job, JobOptions, JobTools } from "./job/job.ts";
export type { Machine, MachineDefinition, Moved } from "./machine/machine.ts";
export type { Source } from "./source/source.ts";
export type { Step, StepOptions, StepTools, Verdict, Waited } from "./step/step.ts";
