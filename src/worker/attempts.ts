import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import type { Backoff } from "./lane.ts";

/** Nobody means to wait longer between two attempts. */
const longestPauseMs = 366 * 86_400_000;

/** How attempts are made, of whatever kind. */
interface Attempts {
  readonly maxAttempts?: number | undefined;
  readonly backoff?: Backoff | undefined;
  readonly deadline?: number | string | undefined;
}

/** Refuses attempts that could not be made, when the program starts and not when the first event or job has come. */
export function checkAttempts(whose: string, { maxAttempts, backoff, deadline }: Attempts): void {
  if (
    maxAttempts !== undefined &&
    !(Number.isInteger(maxAttempts) && maxAttempts >= 1 && maxAttempts <= 9999)
  ) {
    throw invalid(whose, "maxAttempts is a whole number from 1 to 9999.");
  }
  checkPause(whose, "backoff.baseMs", backoff?.baseMs);
  checkPause(whose, "backoff.capMs", backoff?.capMs);
  if (deadline !== undefined && !isLasting(deadline)) {
    throw invalid(whose, 'deadline is a number of milliseconds above 0, or text such as "30 seconds".');
  }
}

function checkPause(whose: string, what: string, ms: number | undefined): void {
  if (ms === undefined || (typeof ms === "number" && ms >= 0 && ms <= longestPauseMs)) return;
  throw invalid(whose, `${what} is a number of milliseconds from 0 to ${longestPauseMs}, a year.`);
}

function isLasting(duration: number | string): boolean {
  try {
    return milliseconds(duration) > 0;
  } catch {
    return false;
  }
}

function invalid(whose: string, what: string): OncewardError {
  return new OncewardError("config_invalid", `${whose}: ${what}`);
}
