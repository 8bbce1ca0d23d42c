import { sqlStateOf } from "./database/failure.ts";
import { Fatal, OncewardError } from "./errors.ts";
import type { ClaimedTask } from "./ledger/task.ts";
import type { Receipt } from "./receive/receiver.ts";
import { laneName, type Ran } from "./worker/lane.ts";

/** One attempt that ended. The error is named by its class and code alone: messages can quote people's data. */
export interface Attempted {
  readonly scope: string;
  readonly lane: string;
  readonly key: string;
  readonly type: string | null;
  readonly attempt: number;
  readonly outcome: Ran["outcome"];
  /** Of a failed one: what became of the task. */
  readonly state?: "waiting" | "dead" | "unknown" | undefined;
  readonly error?: string | undefined;
  readonly ms: number;
}

/** Told what happens in this process, for logs and metrics. It gets facts, never payloads or secrets. */
export interface Observer {
  received?(receipt: Receipt): void;
  attempted?(attempted: Attempted): void;
  /**
   * The database could not be asked for work, and the worker goes on trying; or a delivery could not be taken for a
   * reason that is not its sender's.
   */
  troubled?(error: unknown): void;
}

export function attemptedOf(task: ClaimedTask, ran: Ran, ms: number): Attempted {
  const { scope, key, type, attempt } = task;
  return {
    scope,
    lane: laneName(scope),
    key,
    type,
    attempt,
    outcome: ran.outcome,
    ...(ran.outcome === "failed" && { state: ran.state }),
    ...("error" in ran && ran.error !== undefined && { error: errorName(ran.error) }),
    ms,
  };
}

/** What kind of error it was: a code where it has one, else its class. */
export function errorName(error: unknown): string {
  if (typeof error !== "object" || error === null) return typeof error;
  const { code, name } = error as { code?: unknown; name?: unknown };
  if (typeof code === "string" && /^[\w.-]{1,40}$/.test(code)) return code;
  return typeof name === "string" && /^[\w.-]{1,60}$/.test(name) ? name : "Error";
}

/** What operators see most while they set up a database. */
const meanings: Readonly<Record<string, string>> = {
  "3D000": "there is no such database",
  "28P01": "the password is wrong",
  "28000": "this role may not log in",
  "42501": "the role lacks a privilege, and `onceward doctor` says which",
};

/** What an operator may read of an error anywhere: our own words, but of others only what kind of error it is. */
export function causeOf(error: unknown): string {
  if (error instanceof OncewardError && !(error instanceof Fatal)) return error.message;
  const state = sqlStateOf(error);
  const kind = error instanceof Error ? error.constructor.name : typeof error;
  if (state === undefined) return `An error of ${kind}, which is not ours (${errorName(error)}).`;
  return `The database refuses (${state}, ${kind})${state in meanings ? `: ${meanings[state]}` : ""}.`;
}
