/** What goes into the SQL verbs, as the text in which they take it. */
import { OncewardError } from "../errors.ts";
import { checkCause, checkClaim, checkIdentity, checkInteger, checkMs, isStorableText } from "./check.ts";
import type { LaneLimit } from "./lane.ts";
import type { Claim, NewTask, TaskIdentity } from "./task.ts";

export type Texts = readonly (string | Uint8Array | null)[];
export type Argument = string | null | undefined | Texts;

/** Text of an interval, as Postgres reads it. */
export function interval(name: string, ms: number, least = 0): string {
  checkMs(name, ms, least);
  return `${Number.isInteger(ms) ? ms : ms.toFixed(3)} milliseconds`;
}

/** A claim holds for a moment at least. */
export const lease = (ms: number): string => interval("leaseMs", ms, 1);

export function causeOf(task: TaskIdentity | undefined): string | null {
  checkCause(task);
  return task ? `${task.scope} ${task.key}` : null;
}

export function checkLanes(lanes: readonly string[]): void {
  for (const lane of lanes) checkIdentity(lane, "any");
}

export function claimColumns(claims: readonly Claim[]): [string[], string[], string[]] {
  for (const claim of claims) checkClaim(claim);
  return [
    claims.map((claim) => claim.scope),
    claims.map((claim) => claim.key),
    claims.map((claim) => String(claim.attempt)),
  ];
}

/** The body where it can be kept as text; else it travels as base64 among the rare options. */
export function storableBody(body: NewTask["body"]): string | Uint8Array | null {
  if (body === undefined || isBinary(body)) return null;
  return body;
}

function isBinary(body: string | Uint8Array): boolean {
  return typeof body === "string" ? body.includes("\0") : !isStorableText(body);
}

export function rareOptions(task: NewTask): string | null {
  const { body, delayMs, dueAt, happenedAt, priority, serial, slots, maxTries, origin, cause, ignored } =
    task;
  const bytes =
    body !== undefined && isBinary(body) ? Buffer.from(body as string).toString("base64") : undefined;
  const options = {
    bytes,
    delay: delayMs ? interval("delayMs", delayMs) : undefined,
    due_at: dueAt?.toISOString(),
    happened_at: happenedAt?.toISOString(),
    priority: priority || undefined,
    serial,
    slots,
    max_tries: maxTries,
    origin,
    cause: cause && causeOf(cause),
    ignored,
  };
  return Object.values(options).every((value) => value === undefined) ? null : JSON.stringify(options);
}

export function limitsText(limits: Readonly<Record<string, LaneLimit>>): string {
  return JSON.stringify(
    Object.fromEntries(
      Object.entries(limits).map(([lane, { max, running, rate }]) => {
        checkInteger("max", max);
        checkInteger("running", running);
        if (rate && !(rate.limit > 0 && Number.isFinite(rate.limit))) {
          throw new OncewardError("value_invalid", "The limit of a rate is a number above 0.");
        }
        return [lane, { max, running, rate: rate?.limit, per: rate && interval("perMs", rate.perMs, 1) }];
      }),
    ),
  );
}
