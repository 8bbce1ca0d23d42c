import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import { checkAttempts } from "../worker/attempts.ts";
import type { JobOptions } from "./job.ts";

/** The ledger's bound for a scope, less `job/`. A slash would put a job below another one, and in its lane. */
const maxNameBytes = 255 - "job/".length;

/** Refuses a definition that could not work, when it is made and not at three in the morning. */
export function checkOptions(name: string, options: JobOptions<never>): void {
  if (
    typeof name !== "string" ||
    name === "" ||
    Buffer.byteLength(name) > maxNameBytes ||
    /[\0\s/]/.test(name)
  ) {
    throw invalid(`A job's name is text of 1 to ${maxNameBytes} bytes without spaces and slashes.`);
  }
  checkAttempts(name, options);
  const { concurrency = {}, serial, priority, delay, rate } = options;
  const { total, perKey, perProcess } = concurrency;
  checkCount(name, "concurrency.total", total);
  checkCount(name, "concurrency.perKey.limit", perKey?.limit);
  checkCount(name, "concurrency.perProcess", perProcess);
  checkCount(name, "rate.limit", rate?.limit);
  if (priority !== undefined && !(Number.isInteger(priority) && Math.abs(priority) <= 9999)) {
    throw invalid(`${name}: priority is a whole number from -9999 to 9999.`);
  }
  for (const duration of [delay, rate?.per]) if (duration !== undefined) milliseconds(duration);
  if (rate && milliseconds(rate.per) === 0) throw invalid(`${name}: rate.per is longer than nothing.`);
  if (serial && (perKey || total !== undefined)) {
    throw invalid(
      `${name}: serial already says how many run at once, one of each group. For a total as well, where the order ` +
        "does not matter, use concurrency: { total, perKey: { key, limit: 1 } }.",
    );
  }
}

function checkCount(name: string, what: string, value: number | undefined): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= 1 && value <= 9999)) {
    throw invalid(`${name}: ${what} is a whole number from 1 to 9999.`);
  }
}

function invalid(message: string): OncewardError {
  return new OncewardError("config_invalid", message);
}
