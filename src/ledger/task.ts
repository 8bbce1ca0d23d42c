/** The shapes of a task as they go into the ledger and come out of it. */
import { isStorableText } from "./check.ts";

export type TaskState = "waiting" | "running" | "done" | "dead" | "ignored" | "cancelled" | "unknown";

export interface TaskIdentity {
  readonly scope: string;
  readonly key: string;
}

/** A task to write down. Its body is kept as it is given: text, or the bytes as they came. */
export interface NewTask extends TaskIdentity {
  readonly body?: string | Uint8Array | undefined;
  /** What the body says, where this process may run it at once: nobody else holds it. It is not written down. */
  readonly input?: unknown;
  /** An event's type. */
  readonly type?: string | undefined;
  /** What must be equal whenever this identity is recorded again; unset: not compared. */
  readonly fingerprint?: string | undefined;
  readonly delayMs?: number | undefined;
  readonly dueAt?: Date | undefined;
  /** When its sender says that it happened: where keys from then were pruned, it is parked instead of run. */
  readonly happenedAt?: Date | undefined;
  /** Higher runs first, within one scope. */
  readonly priority?: number | undefined;
  /** Tasks of one serial group run one after another, in the order they were recorded. */
  readonly serial?: string | undefined;
  /** With `serial`: how many of the group may run at once, in any order. */
  readonly slots?: number | undefined;
  readonly maxTries?: number | undefined;
  /** How it came, where it was not delivered. */
  readonly origin?: "backfill" | undefined;
  /** The task that brought this one about. */
  readonly cause?: TaskIdentity | undefined;
  /** Keep it without running it, and say why; a replay runs it. */
  readonly ignored?: string | undefined;
}

/** The right to run a task: its identity and the attempt that every later write must carry. */
export interface Claim extends TaskIdentity {
  readonly attempt: number;
}

/** A claim whose work is done. */
export interface Completion extends Claim {
  /** JSON, where there is something to keep. */
  readonly result?: string | undefined;
  /** Its group, the next of which may run then. */
  readonly serial?: string | null | undefined;
}

export type Completed = "done" | "kept" | "lost";

export type StepState = "started" | "done" | "failed" | "waiting";

export interface SavedStep {
  readonly name: string;
  readonly state: StepState;
  readonly attempt: number;
  /** JSON, or null where the step returned nothing. */
  readonly value: string | null;
  readonly started_at: string;
}

export interface StepToSave extends Claim {
  readonly name: string;
  readonly state: StepState;
  /** JSON; undefined where there is nothing to keep. */
  readonly value?: string | undefined;
}

/** A task that this process holds and can run. */
export interface ClaimedTask extends Claim {
  readonly type: string | null;
  readonly generation: number;
  /** How many attempts were used up since it was recorded or replayed, this one included. */
  readonly tries: number;
  readonly maxTries: number;
  readonly serial: string | null;
  /** When the database gave this claim, by its clock; left out where the task was claimed as it was recorded. */
  readonly claimedAt?: string | undefined;
  /** What was recorded: text, or bytes where it was not valid UTF-8; null where it has been pruned. */
  readonly body: string | Uint8Array | null;
  /** What the body says, where it is known without reading it. */
  readonly input?: unknown;
  readonly steps: readonly SavedStep[];
}

export type Recorded =
  | { readonly outcome: "recorded"; readonly state?: "ignored" | "unknown" }
  | { readonly outcome: "claimed"; readonly attempt: number; readonly task?: ClaimedTask }
  | { readonly outcome: "duplicate"; readonly state: TaskState }
  | { readonly outcome: "conflict"; readonly state: TaskState };

export type Claimed =
  | { readonly outcome: "claimed"; readonly attempt: number; readonly task: ClaimedTask }
  | { readonly outcome: "missing" }
  | {
      readonly outcome: TaskState;
      readonly state: TaskState;
      readonly reason?: string;
      readonly due_in_ms?: number;
    };

export interface ClaimedDue {
  readonly tasks: readonly ClaimedTask[];
  /** Where to go on: more scopes than one call visits have work. */
  readonly after: string | null;
  /** How long until the next task of these lanes is due; null where there is none. */
  readonly nextInMs: number | null;
}

/** When to try again after a failure: the ledger's own backoff, after so many ms, never, or parked as unknown. */
export type Retry = "backoff" | "never" | "unknown" | { readonly afterMs: number };

/** A claimed task as the SQL verbs write it. */
interface ClaimedRow {
  scope: string;
  key: string;
  type: string | null;
  attempt: number;
  generation: number;
  tries: number;
  max_tries: number;
  serial: string | null;
  claimed_at: string;
  body: string | null;
  bytes: string | null;
  steps: SavedStep[] | null;
}

function textOrBytes(bytes: Buffer): string | Uint8Array {
  return isStorableText(bytes) ? bytes.toString() : bytes;
}

export function claimedTask(row: unknown): ClaimedTask {
  const claimed = row as ClaimedRow;
  const { bytes, body, steps } = claimed;
  return {
    scope: claimed.scope,
    key: claimed.key,
    type: claimed.type,
    attempt: claimed.attempt,
    generation: claimed.generation,
    tries: claimed.tries,
    maxTries: claimed.max_tries,
    serial: claimed.serial,
    claimedAt: claimed.claimed_at,
    body: bytes === null ? body : textOrBytes(Buffer.from(bytes, "base64")),
    steps: steps ?? [],
  };
}
