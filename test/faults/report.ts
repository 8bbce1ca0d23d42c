/** Outcomes for people: a line as each fault ends, and a table of all of them. */
import type { Outcome } from "./try.ts";

export function passed({ lost, doubled, refused }: Outcome): boolean {
  return lost.length === 0 && doubled.length === 0 && refused.length === 0;
}

export function lineOf(outcome: Outcome): string {
  const { fault, strikes, acknowledged, lost, doubled, recoveries } = outcome;
  const parts = [
    fault.name.padEnd(12),
    `${strikes} strikes`,
    `${number(acknowledged)} acknowledged`,
    `lost ${lost.length}`,
    `doubled ${doubled.length}`,
    `recovery ${seconds(median(recoveries))} (longest ${seconds(Math.max(...recoveries))})`,
    answersOf(outcome),
  ];
  const names = [
    ...lost.slice(0, 5).map((name) => `\n  lost: ${name}`),
    ...doubled.slice(0, 5).map((name) => `\n  doubled: ${name}`),
    ...outcome.refused.slice(0, 5).map((name) => `\n  never taken: ${name}`),
  ];
  return parts.join("  ") + names.join("");
}

/** In Markdown, as it stands in docs/faults.md. */
export function tableOf(outcomes: readonly Outcome[]): string {
  const head = [
    "fault",
    "strikes",
    "acknowledged",
    "lost",
    "doubled",
    "recovery",
    "longest",
    "not taken at first",
  ];
  const rows = outcomes.map((outcome) => [
    `\`${outcome.fault.name}\``,
    number(outcome.strikes),
    number(outcome.acknowledged),
    number(outcome.lost.length),
    number(outcome.doubled.length),
    seconds(median(outcome.recoveries)),
    seconds(Math.max(...outcome.recoveries)),
    answersOf(outcome),
  ]);
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** Deliveries that had to be repeated: by status, `cut` where no answer came. */
function answersOf({ answers }: Outcome): string {
  const others = [...answers]
    .filter(([status]) => status < 200 || status >= 300)
    .toSorted(([a], [b]) => a - b);
  return others.map(([status, n]) => `${status === 0 ? "cut" : status}: ${number(n)}`).join(", ") || "none";
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? 0;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
