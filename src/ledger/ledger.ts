import type { Database, Queryable } from "../database/database.ts";
import { checkTask } from "./check.ts";
import { coalesce } from "./coalesce.ts";
import { checkSchemaName, defaultSchema } from "./schema.ts";
import type { Claim, ClaimedTask, NewTask, Recorded, Retry } from "./task.ts";
import { Verbs, type StepToSave } from "./verbs.ts";

export interface LedgerOptions {
  readonly schema?: string | undefined;
  /** How long a claim holds without being renewed. */
  readonly leaseMs?: number | undefined;
  /** Names this process in the ledger, for people who look. */
  readonly worker?: string | undefined;
}

/** A crash is noticed when the lease ends; with a poll every few seconds work is running again within 65 s. */
export const defaultLeaseMs = 60_000;

/**
 * The ledger of one process. What many callers do at once (record, complete, fail, renew, save a
 * step) shares statements; everything else is a verb, here or inside somebody's transaction.
 */
export class Ledger {
  readonly database: Database;
  readonly verbs: Verbs;
  readonly schema: string;
  readonly leaseMs: number;
  readonly worker: string;

  /** Writes a task down, or says what is known of it. */
  readonly record: (task: NewTask) => Promise<Recorded>;
  /** The same, and claims it for this process. */
  readonly recordAndClaim: (task: NewTask) => Promise<Recorded>;
  readonly complete: (claim: Claim & { result?: string | undefined }) => Promise<"done" | "lost">;
  readonly fail: (
    claim: Claim & { reason: string; retry: Retry },
  ) => Promise<"waiting" | "dead" | "unknown" | "lost">;
  readonly renew: (claim: Claim) => Promise<"renewed" | "lost">;
  readonly saveStep: (step: StepToSave) => Promise<"saved" | "lost">;

  constructor(database: Database, options: LedgerOptions = {}) {
    this.database = database;
    this.schema = checkSchemaName(options.schema ?? defaultSchema);
    this.leaseMs = options.leaseMs ?? defaultLeaseMs;
    this.worker = options.worker ?? `${process.pid}`;
    const verbs = new Verbs(database, this.schema);
    this.verbs = verbs;
    const claim = { leaseMs: this.leaseMs, worker: this.worker };
    this.record = checked(coalesce((tasks: readonly NewTask[]) => verbs.record(tasks)));
    this.recordAndClaim = checked(coalesce((tasks: readonly NewTask[]) => verbs.record(tasks, claim)));
    this.complete = coalesce((claims: readonly (Claim & { result?: string | undefined })[]) => verbs.complete(claims));
    this.fail = coalesce((claims: readonly (Claim & { reason: string; retry: Retry })[]) => verbs.fail(claims));
    this.renew = coalesce((claims: readonly Claim[]) => verbs.renew(claims, this.leaseMs));
    this.saveStep = coalesce((steps: readonly StepToSave[]) => verbs.saveSteps(steps));
  }

  /** The verbs inside an open transaction: they commit with it. */
  within(transaction: Queryable): Verbs {
    return this.verbs.within(transaction);
  }
}

/** What is wrong with a task is its caller's affair: found before it is put into a batch with others. */
function checked(record: (task: NewTask) => Promise<Recorded>): (task: NewTask) => Promise<Recorded> {
  return async (task) => {
    checkTask(task);
    return record(task);
  };
}

/** The task of a fresh claim, as a later claim of the same task would return it. */
export function freshlyClaimed(task: NewTask, attempt: number): ClaimedTask {
  return {
    scope: task.scope,
    key: task.key,
    attempt,
    type: task.type ?? null,
    generation: 1,
    tries: 1,
    maxTries: task.maxTries ?? 30,
    serial: task.serial ?? null,
    createdAt: new Date().toISOString(),
    body: task.body ?? "null",
    steps: [],
  };
}
