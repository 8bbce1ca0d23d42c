export { createOnce, type Once, type OnceOptions } from "./once.ts";
export { Fatal, OncewardError, type ErrorCode } from "./errors.ts";
export type { ActionFunction, ActionOptions, ActionOutcome, ActionTools } from "./action/action.ts";
export type { Tool, ToolCall, ToolOptions, ToolTools } from "./action/tool.ts";
export type { Database, Param, Queryable, TransactionOptions } from "./database/database.ts";
export type { DatabaseInput } from "./database/open.ts";
export type { PgClient as Transaction } from "./database/pg.ts";
export type {
  AnswerMode,
  ApplyIfNewer,
  AttemptOptions,
  EventOf,
  HandledEvent,
  Handler,
  HandlerOptions,
  Handling,
  HandlingTogether,
  InTransaction,
  TogetherHandler,
  TogetherHandlerOptions,
  TypeOrPattern,
  Version,
} from "./handler/handler.ts";
export type { Taken, TakeOptions } from "./handler/intake.ts";
export type { ConnectedSource, OfAccount, SourceOptions } from "./handler/source.ts";
export type {
  Concurrency,
  Enqueue,
  Enqueued,
  EnqueueOptions,
  Job,
  JobFunction,
  JobOptions,
  JobReference,
  JobTools,
  TaskOptions,
  WithinTransaction,
} from "./job/job.ts";
export type { ScheduleOptions, TickTools } from "./job/schedule.ts";
export type { Schema, SchemaInput, SchemaOutput } from "./job/schema.ts";
export type { ListedTask } from "./ledger/listed.ts";
export type { ToldSignal } from "./ledger/signal.ts";
export type { ClaimedTask, SavedStep, TaskIdentity, TaskState } from "./ledger/task.ts";
export type {
  Machine,
  MachineDefinition,
  Moved,
  MoveOptions,
  Moving,
  PastMove,
  Standing,
} from "./machine/machine.ts";
export type { Answer, Delivery, Receiver } from "./receive/delivery.ts";
export type { Receipt } from "./receive/receiver.ts";
export type { Source } from "./source/source.ts";
export type { Step, StepOptions, StepTools, Verdict, Waited, WaitOptions } from "./step/step.ts";
export type { Attempted, Observer } from "./observe.ts";
export { defineConfig, type Config } from "./config.ts";
export { fetchOnce, idempotencyKey, keysLast } from "./step/outside.ts";
export { mailOnce, type Mailer, type MailOptions, type Sent } from "./mail/mail.ts";
export { NotDone } from "./step/outcome.ts";
export type { Signalled, SignalOptions } from "./step/signal.ts";
export type { Recovery } from "./recover/recovery.ts";
export type { AuditFilter } from "./recover/audit.ts";
export type { BackfillOptions, BackfillReport } from "./recover/backfill/backfill.ts";
export type { Answer as Resolution, Cancelled } from "./recover/change.ts";
export type { By } from "./recover/context.ts";
export type { Call as DryRunCall } from "./recover/dry-run/calls.ts";
export type { RowChange, TableChange } from "./recover/dry-run/diff.ts";
export type { DryOutcome, DryRan, DryRunOptions, DryRunReport } from "./recover/dry-run/dry-run.ts";
export type { Page } from "./recover/list.ts";
export type { AskedState, TaskFilter } from "./recover/filter.ts";
export type {
  Replayed,
  ReplayOptions,
  ReplayProgress,
  ReplayWhereOptions,
  UnfinishedReplay,
} from "./recover/replay.ts";
export type { ScopeStatus, Status } from "./recover/status.ts";
export type { Audited, Logged, Story, WrittenRows } from "./recover/story.ts";
export type { Stuck, StuckOptions, StuckReason, StuckTask } from "./recover/stuck.ts";
export type { LaneRetention, Retention } from "./recover/retention.ts";
export type { Pruned, PruneRequest } from "./recover/prune.ts";
export type { Finding } from "./doctor/finding.ts";
export type { DoctorRequest } from "./doctor/doctor.ts";
export type { Backoff, Ran } from "./worker/lane.ts";
export type { Engine } from "./worker/engine.ts";
