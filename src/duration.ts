import { OncewardError } from "./errors.ts";

const units: Record<string, number> = {
  ms: 1,
  millisecond: 1,
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
};

/** Milliseconds of a duration: a number of them, or text such as "90 seconds", "3 days", "1 hour 30 minutes". */
export function milliseconds(duration: number | string): number {
  if (typeof duration === "number" && Number.isFinite(duration) && duration >= 0) return duration;
  const text = String(duration).trim();
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)];
  const sum = parts.reduce((ms, [, amount, unit]) => {
    const factor = units[unit === "ms" ? unit : (unit ?? "").replace(/s$/, "")];
    return ms + Number(amount) * (factor ?? Number.NaN);
  }, 0);
  if (
    parts.length === 0 ||
    Number.isNaN(sum) ||
    text.replaceAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g, "").trim() !== ""
  ) {
    throw new OncewardError(
      "value_invalid",
      'A duration is a number of milliseconds, or text such as "90 seconds", "3 days" or "1 hour 30 minutes".',
    );
  }
  return sum;
}
