/** `onceward replay --dry-run`: what would happen, for people. */
import type { TaskIdentity } from "../ledger/task.ts";
import type { Call } from "../recover/dry-run/calls.ts";
import type { RowChange, TableChange } from "../recover/dry-run/diff.ts";
import type { DryRunOptions, DryRunReport } from "../recover/dry-run/dry-run.ts";
import { plain } from "../terminal.ts";
import type { Session } from "./command.ts";
import { Failure, foundSomething } from "./fail.ts";
import { Progress } from "./progress.ts";

/** A value on one line. */
const longestValue = 120;

export async function dryRunTasks(
  { recovery, config, out }: Session,
  tasks: readonly TaskIdentity[],
  options: DryRunOptions,
): Promise<void> {
  if (!config)
    throw new Failure("A dry run needs your handlers and jobs: name a configuration with --config.");
  if (tasks.length === 0) throw new Failure("Nothing matches that could be replayed.");
  const progress = new Progress(tasks.length);
  const reports: DryRunReport[] = [];
  try {
    for (const task of tasks) {
      reports.push(await recovery.dryRun(task, options));
      progress.show(reports.length);
    }
  } finally {
    progress.end();
  }
  if (reports.some(({ outcome }) => outcome === "failed")) foundSomething();
  out.answer(reports, () => [
    ...reports.flatMap((report) => [...tell(report), ""]),
    `Nothing was changed. ${tasks.length > 1 ? "Each was run for itself, without what the others would do. " : ""}` +
      (options.values ? "" : "--values shows the values of columns, which can be personal data."),
  ]);
}

const verdicts: Record<DryRunReport["outcome"], string> = {
  done: "would be done",
  failed: "would fail",
  stops: "would get as far as this",
  waits: "would wait",
  nothing: "nothing would happen",
};

function tell(report: DryRunReport): string[] {
  const { scope, key, type, outcome, reason, handlers, tables, calls, sequences } = report;
  const name = [scope, key, type === null ? "" : `(${type})`].filter(Boolean).join(" ");
  return [
    `${plain(name)}: ${verdicts[outcome]}${reason === undefined ? "" : `: ${plain(reason)}`}`,
    ...handlers.map(
      (one) =>
        `  ${plain(one.scope)}: ${verdicts[one.outcome]}${one.reason === undefined ? "" : `: ${plain(one.reason)}`}`,
    ),
    ...tables.flatMap(tellTable),
    ...calls.map((call) => `  ${plain(tellCall(call))}`),
    ...(outcome === "done" && tables.length + calls.length === 0
      ? ["  no row would change, and nobody be called"]
      : []),
    ...(sequences.length > 0 ? [`  numbers were drawn from ${sequences.join(", ")}, and are gone`] : []),
  ];
}

function tellTable({ table, rows, more, unseen }: TableChange): string[] {
  if (unseen) {
    const { why, inserts, updates, deletes } = unseen;
    return [
      `  ${table}: ${inserts} inserted, ${updates} updated, ${deletes} deleted (${why}, so the rows are not listed)`,
    ];
  }
  return [...rows.flatMap((row) => tellRow(table, row)), ...(more ? [`  … and more rows of ${table}`] : [])];
}

const signs = { inserted: "+", changed: "~", deleted: "-" } as const;

function tellRow(table: string, { change, key, columns, before, after }: RowChange): string[] {
  const keyText = key === null ? "(no primary key)" : pairs(key);
  const what = change === "changed" ? (columns!.length > 0 ? `: ${columns!.join(", ")}` : ": as it was") : "";
  const line = `  ${signs[change]} ${plain(`${table} ${keyText}${what}`)}`;
  const shown = after ?? before;
  if (!shown) return [line];
  const values = Object.keys(shown).map((name) =>
    change === "changed"
      ? `      ${plain(name)}: ${valueText(before?.[name])} → ${valueText(after?.[name])}`
      : `      ${plain(name)}: ${valueText(shown[name])}`,
  );
  return [line, ...values];
}

function tellCall(call: Call): string {
  switch (call.call) {
    case "enqueue": {
      const input = call.input === undefined ? "" : `, with ${valueText(call.input)}`;
      return call.outcome === "duplicate"
        ? `enqueues ${call.scope} ${call.key}: known already, so that nothing comes of it`
        : `enqueues ${call.scope} ${call.key}${input}`;
    }
    case "effect key":
      return call.taken ? `takes the effect key ${call.key}` : `finds the effect key ${call.key} taken`;
    case "move":
      return `moves ${call.machine} ${call.subject} by ${call.move}: ${call.outcome}, ${call.state}`;
    case "step":
      return `then the step ${call.name}, which calls the world outside (key ${call.key}); the dry run stops here`;
    case "connection":
      return `wants to connect to ${call.to}: refused. Put that call into a step of a job`;
    default:
      return `${call.call}s ${call.scope} ${call.key}: ${call.outcome}`;
  }
}

function pairs(key: Readonly<Record<string, unknown>>): string {
  return Object.entries(key)
    .map(([name, value]) => `${name}=${valueText(value)}`)
    .join(" ");
}

function valueText(value: unknown): string {
  const text = plain(typeof value === "string" ? value : (JSON.stringify(value) ?? "null"));
  return text.length > longestValue ? `${text.slice(0, longestValue)}…` : text;
}
