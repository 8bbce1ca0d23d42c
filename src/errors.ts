/**
 * Every error of Onceward, in one table: a stable code, the HTTP status it answers with, and
 * whether trying again can help. Messages say what happened, why, and what to do; they never
 * carry a payload, a secret or a personal datum.
 */
export const errorTable = {
  // What the sender did
  signature_missing: { status: 400, retry: false },
  signature_malformed: { status: 400, retry: false },
  signature_mismatch: { status: 400, retry: false },
  timestamp_too_old: { status: 400, retry: false },
  timestamp_in_future: { status: 400, retry: false },
  body_missing: { status: 400, retry: false },
  body_unreadable: { status: 400, retry: false },
  body_parsed: { status: 500, retry: false },
  body_encoded: { status: 415, retry: false },
  body_too_large: { status: 413, retry: false },
  livemode_mismatch: { status: 400, retry: false },
  method_not_allowed: { status: 405, retry: false },
  // What the caller of the library did
  config_invalid: { status: 500, retry: false },
  scope_invalid: { status: 400, retry: false },
  key_invalid: { status: 400, retry: false },
  payload_invalid: { status: 400, retry: false },
  payload_too_large: { status: 413, retry: false },
  value_invalid: { status: 400, retry: false },
  input_invalid: { status: 422, retry: false },
  input_conflict: { status: 422, retry: false },
  already_running: { status: 409, retry: true },
  still_waiting: { status: 409, retry: true },
  cancelled: { status: 409, retry: false },
  registration_closed: { status: 500, retry: false },
  handler_missing: { status: 500, retry: true },
  handler_failed: { status: 500, retry: true },
  step_duplicate: { status: 500, retry: false },
  step_changed: { status: 500, retry: false },
  step_nested: { status: 500, retry: false },
  outcome_unknown: { status: 500, retry: false },
  // What the database did
  database_unavailable: { status: 503, retry: true },
  pool_exhausted: { status: 503, retry: true },
  key_busy: { status: 503, retry: true },
  database_nested: { status: 500, retry: false },
  database_locked: { status: 500, retry: false },
  driver_missing: { status: 500, retry: false },
  schema_missing: { status: 500, retry: false },
  schema_outdated: { status: 500, retry: false },
  schema_too_new: { status: 500, retry: false },
  schema_altered: { status: 500, retry: false },
  transaction_aborted: { status: 500, retry: true },
  transaction_ended: { status: 500, retry: true },
  // What a sender's API did
  sender_unavailable: { status: 503, retry: true },
  sender_refused: { status: 500, retry: false },
  // What happened to a run
  claim_lost: { status: 409, retry: true },
  deadline_passed: { status: 500, retry: true },
  not_done: { status: 500, retry: true },
  dry_run: { status: 409, retry: false },
  fatal: { status: 500, retry: false },
} as const satisfies Record<string, { status: number; retry: boolean }>;

export type ErrorCode = keyof typeof errorTable;

/** The one error class. `code` is stable and meant for programs; `message` is for people. */
export class OncewardError extends Error {
  override readonly name: string = "OncewardError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly retry: boolean;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = errorTable[code].status;
    this.retry = errorTable[code].retry;
  }
}

/** Throw it from a handler, a job or a step when trying again cannot help: the task is `dead` at once. */
export class Fatal extends OncewardError {
  override readonly name: string = "Fatal";
  constructor(message: string, options?: ErrorOptions) {
    super("fatal", message, options);
  }
}

/** The message of anything that was thrown; for what the ledger keeps as the reason of a failure. */
export function messageOf(error: unknown): string {
  // Drizzle writes the parameters of a failed statement into its message; what caused it says the same without them.
  if (error instanceof Error && "params" in error && error.cause instanceof Error)
    return messageOf(error.cause);
  if (typeof error === "string") return error;
  if (!(error instanceof Error)) return "something that is not an Error was thrown";
  // Anybody can assign anything to either.
  for (const text of [error.message, error.name] as readonly unknown[]) {
    if (typeof text === "string" && text !== "") return text;
  }
  return "an Error without a message was thrown";
}
