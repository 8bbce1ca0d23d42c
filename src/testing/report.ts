import type { Trial } from "./prove.ts";
import type { Difference, Row } from "./snapshot.ts";

/** So many rows are shown of each difference; the count tells the rest. */
const rowsShown = 3;
const rowWidth = 160;

/** The trials as text: one line each, and below those that differ how. */
export function describeProof(name: string, trials: readonly Trial[]): string {
  const held = trials.filter((trial) => trial.outcome === "holds").length;
  const head =
    held === trials.length
      ? `${name}: all ${held} trials hold`
      : `${name}: ${trials.length - held} of ${trials.length} trials differ`;
  return [head, "", ...trials.flatMap(describeTrial)].join("\n");
}

function describeTrial({ name, outcome, differences, unfinished, hint }: Trial): string[] {
  return [
    `${outcome === "holds" ? "  holds   " : "  DIFFERS "} ${name}`,
    ...(unfinished ? [`             the event is not done in the end; ${unfinished}`] : []),
    ...differences.flatMap(describeDifference),
    ...(hint ? [`             ${hint}`] : []),
  ];
}

function describeDifference({ table, missing, extra }: Difference): string[] {
  return [...describeRows(table, "missing", "-", missing), ...describeRows(table, "too many", "+", extra)];
}

function describeRows(table: string, what: string, sign: string, rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const shown = rows.slice(0, rowsShown).map((row) => `               ${sign} ${describeRow(row)}`);
  const rest =
    rows.length > rowsShown ? [`               ${sign} … and ${rows.length - rowsShown} more`] : [];
  return [`             ${table}: ${rows.length} ${what}`, ...shown, ...rest];
}

function describeRow(row: Row): string {
  const text = Object.entries(row)
    .map(([path, value]) => (path === "" ? value : `${path}: ${value}`))
    .join(", ");
  return text.length > rowWidth ? `${text.slice(0, rowWidth)}…` : text;
}
