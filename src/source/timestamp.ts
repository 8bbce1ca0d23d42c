import { OncewardError } from "../errors.ts";

/** Five minutes: what Stripe, Slack and Standard Webhooks recommend. Longer only helps who replays a captured request. */
const DEFAULT_TOLERANCE_S = 300;

/** 15 digits stay exact in a double; ASCII only, since other digits would be signed as other bytes. */
const UNIX_SECONDS = /^[0-9]{1,15}$/;

/** Year 9999 in Unix seconds: the last that every date type between here and the ledger can hold. */
const LAST_SECOND = 253_402_300_799;

export function toleranceOption(source: string, seconds: number | undefined): number {
  if (seconds === undefined) return DEFAULT_TOLERANCE_S;
  if (Number.isFinite(seconds) && seconds > 0) return seconds;
  throw new OncewardError(
    "config_invalid",
    `${source}: tolerance must be a positive number of seconds; leave it out for ${DEFAULT_TOLERANCE_S}`,
  );
}

export function readTimestamp(source: string, text: string): number {
  if (UNIX_SECONDS.test(text)) return Number(text);
  throw new OncewardError(
    "signature_malformed",
    `${source}: the signed timestamp is not a Unix time in whole seconds`,
  );
}

/** Call it after the signature was verified, so that "too old" is only ever said of what is genuine. */
export function checkAge(source: string, timestamp: number, now: number, tolerance: number): void {
  const age = Math.floor(now / 1000) - timestamp;
  if (age < -tolerance) {
    throw new OncewardError(
      "timestamp_in_future",
      `${source}: the request was signed ${-age} s in the future (tolerance ${tolerance} s). Is the clock of this machine slow?`,
    );
  }
  // Written so that a clock which is NaN refuses.
  if (!(age <= tolerance)) {
    throw new OncewardError(
      "timestamp_too_old",
      `${source}: the request was signed ${age} s ago (tolerance ${tolerance} s): a replayed request, ` +
        `one held up on its way, or the clock of this machine is fast. Senders sign every retry anew`,
    );
  }
}

/** The date of Unix seconds, or undefined: it is a hint for people and no reason to refuse an event. */
export function dateFromSeconds(seconds: unknown): Date | undefined {
  if (typeof seconds !== "number" || !(seconds >= 0 && seconds <= LAST_SECOND)) return undefined;
  return new Date(seconds * 1000);
}

/** The same from the sender's own date text. */
export function dateFromText(text: unknown): Date | undefined {
  return typeof text === "string" && text.length <= 64 ? dateFromSeconds(Date.parse(text) / 1000) : undefined;
}
