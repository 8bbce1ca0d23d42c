import { type DoctorRequest, examineAll } from "../doctor/doctor.ts";
import type { Finding } from "../doctor/finding.ts";
import { checkIdentity } from "../ledger/check.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import type { ListedTask } from "../ledger/listed.ts";
import { type AuditFilter, readAudit } from "./audit.ts";
import { backfill, type BackfillOptions, type BackfillReport } from "./backfill/backfill.ts";
import { type Answer, type Cancelled, cancelTasks, resolveStep } from "./change.ts";
import type { By, RecoveryContext } from "./context.ts";
import { dryRun, type DryRunOptions, type DryRunReport } from "./dry-run/dry-run.ts";
import type { TaskFilter } from "./filter.ts";
import { findTasks, listTasks, type Page } from "./list.ts";
import { prune, type Pruned, type PruneRequest } from "./prune.ts";
import {
  countReplayable,
  findReplayable,
  type Replayed,
  type ReplayOptions,
  replayHandled,
  type ReplayProgress,
  replayWhere,
  type ReplayWhereOptions,
  resumeReplay,
  type UnfinishedReplay,
  unfinishedReplays,
} from "./replay.ts";
import { readStatus, type Status } from "./status.ts";
import { type Audited, findRows, type Story, tellStory, type WrittenRows } from "./story.ts";
import { findStuck, type Stuck, type StuckOptions } from "./stuck.ts";

/** For whoever is on call: what is stuck and why, and how it moves again. The same calls as the commands of `onceward`. */
export interface Recovery {
  /** Tasks by scope and state, the oldest, the failures of the last hour, the workers. `exact` counts what is done too. */
  status(options?: { readonly exact?: boolean }): Promise<Status>;
  /** What should be moving and is not, and why. */
  stuck(options?: StuckOptions): Promise<Stuck>;
  /** The newest first. */
  list(filter?: TaskFilter & Page): Promise<ListedTask[]>;
  /** Every task with this key, whatever its scope. */
  find(key: string): Promise<TaskIdentity[]>;
  /** The whole story of one task; null where there is none. */
  show(task: TaskIdentity): Promise<Story | null>;
  /** Which rows of your own tables its commits wrote that nobody has changed since. It reads these tables. */
  rowsOf(task: TaskIdentity): Promise<WrittenRows | null>;

  /** Has tasks run again: what is dead, failed, cancelled, unknown, or ignored and handled by now. What is done is left alone. */
  replay(tasks: readonly TaskIdentity[], options: ReplayOptions): Promise<readonly Replayed[]>;
  /** Has everything run again that matches now: dead, failed, and ignored ones that have a handler by now. */
  replayWhere(filter: TaskFilter, options: ReplayWhereOptions): Promise<ReplayProgress>;
  /** How many those would be. */
  countReplayable(filter: TaskFilter, options?: { readonly again?: boolean }): Promise<number>;
  /** Replays whose process ended half way. */
  unfinishedReplays(): Promise<readonly UnfinishedReplay[]>;
  resumeReplay(name: string, options?: Pick<ReplayWhereOptions, "onProgress">): Promise<ReplayProgress>;

  /** What a replay of this task would change, and whom it would call. Nothing of it is kept. */
  dryRun(task: TaskIdentity, options?: DryRunOptions): Promise<DryRunReport>;

  /** What a replay of all that matches would take, at most so many, the newest first. */
  replayable(
    filter: TaskFilter,
    options?: { again?: boolean; max?: number },
  ): Promise<readonly TaskIdentity[]>;
  /** Fetches events that never arrived, and has them run. */
  backfill(options: BackfillOptions): Promise<BackfillReport>;

  /** What has not finished shall not run any more. */
  cancel(tasks: readonly TaskIdentity[], by: By): Promise<readonly Cancelled[]>;
  /** Says what became of a step whose outcome nobody knew, and lets its task go on. */
  resolve(task: TaskIdentity, answer: Answer): Promise<{ outcome: "resolved" | "missing" }>;
  /** Forgets what is finished and older than the retention says, in small batches beside live traffic. */
  prune(request?: PruneRequest): Promise<Pruned>;
  /** Looks at the database, the ledger, the handlers and the sender's endpoints, and says what is wrong and what to do. */
  doctor(request?: DoctorRequest): Promise<readonly Finding[]>;
  /** What people changed, the newest first. */
  audit(filter?: AuditFilter): Promise<readonly Audited[]>;
}

/** One line a call; each is in a file of its own in this folder. */
export function createRecovery(context: RecoveryContext): Recovery {
  const { engine } = context;
  return {
    status: (options) => readStatus(engine, options),
    stuck: (options) => findStuck(context, options),
    list: (filter) => listTasks(engine, filter),
    find: (key) => findTasks(engine, key),
    async show(task) {
      checkIdentity(task.scope, task.key);
      return tellStory(engine, task);
    },
    async rowsOf(task) {
      checkIdentity(task.scope, task.key);
      return findRows(engine, task);
    },
    replay: (tasks, options) => replayHandled(context, tasks, options),
    replayWhere: (filter, options) => replayWhere(context, filter, options),
    countReplayable: (filter, options) => countReplayable(context, filter, options),
    unfinishedReplays: () => unfinishedReplays(engine),
    resumeReplay: (name, options) => resumeReplay(engine, name, options),
    dryRun: (task, options) => dryRun(engine, task, options),
    replayable: (filter, options) => findReplayable(context, filter, options),
    backfill: (options) => backfill(context, options),
    cancel: (tasks, by) => cancelTasks(engine, tasks, by),
    resolve: (task, answer) => resolveStep(engine, task, answer),
    prune: (request) => prune(engine, request),
    doctor: (request) => examineAll(context, request),
    audit: (filter) => readAudit(engine, filter),
  };
}
