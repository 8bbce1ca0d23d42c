/** Times in answers: the real clock and that of a schedule may differ. */
import type { Outcome } from "./place.ts";
import type { Reply } from "./reply.ts";

const time = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?=\+00:00)/g;

export function tellsTime({ reply, woken }: Outcome): boolean {
  return [reply, ...woken.map((one) => one.reply)].some(
    (one) => one !== undefined && one !== "blocked" && "rows" in one && one.rows.search(time) >= 0,
  );
}

/** The same answers, so much later. */
export function shifted(outcome: Outcome, byMs: number): Outcome {
  if (byMs === 0) return outcome;
  return {
    reply: later(outcome.reply, byMs),
    woken: outcome.woken.map((one) => ({ ...one, reply: later(one.reply, byMs) })),
  };
}

function later<R extends Reply | "blocked" | undefined>(reply: R, byMs: number): R {
  if (typeof reply !== "object" || !("rows" in reply)) return reply;
  const rows = reply.rows.replaceAll(time, (_, seconds: string, fraction = "") => {
    // Of the fraction, only whole milliseconds are moved; what is left is that of a batch.
    const micros = fraction.padEnd(6, "0");
    const moved = new Date(Date.parse(`${seconds}Z`) + Number(micros.slice(0, 3)) + byMs).toISOString();
    const rest = `${moved.slice(20, 23)}${micros.slice(3)}`.replace(/0+$/, "");
    return `${moved.slice(0, 19)}${rest && `.${rest}`}`;
  });
  return { ...reply, rows };
}

export function withoutTimes(text: string): string {
  return text.replaceAll(time, "");
}
