import type { SavedStep, TaskIdentity } from "../ledger/task.ts";
import type { ListedTask } from "../ledger/listed.ts";
import type { ToldSignal } from "../ledger/signal.ts";
import type { Engine } from "../worker/engine.ts";

/** All that the ledger knows of one task and of what it brought about. */
export interface Story extends ListedTask {
  readonly max_tries: number;
  readonly priority: number;
  readonly fingerprint: string | null;
  /** JSON. */
  readonly result: string | null;
  /** Null where it has been pruned. */
  readonly payload_bytes: number | null;
  /** How often it was delivered after the first time, roughly; null where it was not. */
  readonly deliveries: { readonly again: number; readonly last_at: string } | null;
  readonly steps: readonly SavedStep[];
  readonly earlier_steps: readonly (Pick<SavedStep, "name" | "state"> & { readonly generation: number })[];
  readonly signals: Readonly<Record<string, ToldSignal>>;
  /** Failures, lost leases, conflicting deliveries, and what people did, the oldest first. */
  readonly log: readonly Logged[];
  /** Effect keys that it took. */
  readonly effects: readonly (TaskIdentity & { readonly taken_at: string })[];
  readonly enqueued: readonly (TaskIdentity & {
    readonly state: string;
    readonly created_at: string;
    readonly reason: string | null;
  })[];
  readonly moves: readonly {
    readonly machine: string;
    readonly subject: string;
    readonly version: number;
    readonly move: string;
    readonly from: string;
    readonly to: string;
    readonly at: string;
  }[];
  /** What enqueued it, what enqueued that, and so on, as "scope key". */
  readonly causes: readonly string[];
  readonly audit: readonly Omit<Audited, "scope" | "key">[];
}

export interface Logged {
  readonly logged_at: string;
  readonly what: string;
  readonly attempt: number | null;
  readonly actor: string | null;
  readonly detail: string | null;
}

/** One change that a person made. */
export interface Audited {
  readonly changed_at: string;
  readonly actor: string;
  readonly what: string;
  /** Null where it was no single task. */
  readonly scope: string | null;
  readonly key: string | null;
  readonly reason: string | null;
  readonly detail: string | null;
}

export async function tellStory(engine: Engine, { scope, key }: TaskIdentity): Promise<Story | null> {
  await engine.ready();
  return engine.ledger.verbs.call("story", [scope, key]);
}

/** Which rows of the application's tables the commits of a task wrote that nobody has changed since. */
export interface WrittenRows {
  readonly tables: readonly {
    readonly table: string;
    readonly rows: number;
    /** Primary keys, at most twenty. Numbers of more than 15 digits are text. */
    readonly keys: readonly Readonly<Record<string, unknown>>[];
  }[];
  /** Too large to be read for this. */
  readonly left_out: readonly string[];
}

export async function findRows(engine: Engine, { scope, key }: TaskIdentity): Promise<WrittenRows | null> {
  await engine.ready();
  return engine.ledger.verbs.call("rows_of", [scope, key]);
}
