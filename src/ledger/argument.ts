/** What goes into the SQL verbs, as the text in which they take it. */
import type { Texts } from "../database/database.ts";
import { OncewardError } from "../errors.ts";
import { checkCause, checkClaim, checkIdentity, checkInteger, checkMs, isStorableText } from "./check.ts";
import type { LaneLimit } from "./lane.ts";
import type { Claim, NewTask, TaskIdentity } from "./task.ts";

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

/** A payload where it can be kept as text, and what is rarely needed: null where nothing of it is. */
export interface Stored {
  readonly body: string | Uint8Array | null;
  readonly options: string | null;
}

export function storedForm(task: NewTask): Stored {
  const { body, delayMs, dueAt, happenedAt, priority, serial, slots, maxTries, origin, cause, ignored } =
    task;
  if (body !== undefined && isBinary(body)) {
    const bytes = Buffer.from(body as string).toString("base64");
    return { body: null, options: JSON.stringify({ bytes, ...rareOptions(task) }) };
  }
  // Asked of every task: a look at each is quicker than to make an object of them.
  const isRare =
    delayMs ||
    priority ||
    (dueAt ?? happenedAt ?? serial ?? slots ?? maxTries ?? origin ?? cause ?? ignored) !== undefined;
  return { body: body ?? null, options: isRare ? JSON.stringify(rareOptions(task)) : null };
}

function isBinary(body: string | Uint8Array): boolean {
  return typeof body === "string" ? body.includes("\0") : !isStorableText(body);
}

function rareOptions(task: NewTask): Record<string, unknown> {
  const { delayMs, dueAt, happenedAt, priority, serial, slots, maxTries, origin, cause, ignored } = task;
  return {
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
