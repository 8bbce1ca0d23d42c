import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";

export interface Status {
  readonly at: string;
  readonly scopes: readonly ScopeStatus[];
  readonly oldest_due: (TaskIdentity & OldTask & { readonly due_at: string }) | null;
  readonly oldest_running:
    | (TaskIdentity & OldTask & { readonly started_at: string; readonly held_by: string | null })
    | null;
  /** Of the last hour, by their kind: ids and numbers in their text are left out. */
  readonly failures: readonly {
    readonly error: string;
    readonly count: number;
    /** How many of them were the last try of their task. */
    readonly dead: number;
    readonly latest_at: string;
    readonly example: TaskIdentity;
  }[];
  readonly workers: readonly {
    readonly id: string;
    readonly lanes: readonly string[];
    readonly started_at: string;
    readonly seen_ms: number;
    /** It has said hello within the last 90 seconds. */
    readonly there: boolean;
  }[];
  /** Of all scopes together, as the planner believes; null where they were counted, or it has not looked yet. */
  readonly done_about: number | null;
}

interface OldTask {
  readonly type: string | null;
  readonly ms: number;
}

export interface ScopeStatus {
  readonly scope: string;
  readonly due: number;
  readonly later: number;
  readonly running: number;
  readonly dead: number;
  readonly unknown: number;
  readonly ignored: number;
  readonly cancelled: number;
  /** Null where nobody asked to count them. */
  readonly done: number | null;
  readonly oldest_due_ms: number | null;
  readonly oldest_running_ms: number | null;
}

export async function readStatus(engine: Engine, options: { exact?: boolean } = {}): Promise<Status> {
  await engine.ready();
  return engine.ledger.verbs.call("status", [String(options.exact ?? false)]);
}
