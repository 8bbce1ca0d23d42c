import type { Command } from "commander";
import type { Status } from "../recover/status.ts";
import { ledgerCommand, withLedger, type LedgerOptions } from "./command.ts";
import { span, table, time } from "./output.ts";

/** `onceward status`. */
export function statusCommand(): Command {
  return ledgerCommand("status", "tasks by scope and state, the oldest, recent failures, workers")
    .option("--exact", "count what is done too, which reads the whole table")
    .action(
      withLedger<LedgerOptions & { exact?: boolean }>(async ({ recovery, out }, { exact }) => {
        const status = await recovery.status({ exact: exact === true });
        out.answer(status, () => [
          ...scopes(status, exact === true),
          "",
          ...oldest(status),
          ...workers(status),
          ...failures(status),
        ]);
      }),
    );
}

function scopes({ scopes: all, done_about }: Status, counted: boolean): string[] {
  const rows = all.map((one) => [
    one.scope,
    one.due,
    one.later,
    one.running,
    one.dead,
    one.unknown,
    one.ignored,
    one.cancelled,
    ...(counted ? [one.done] : []),
    span(one.oldest_due_ms),
  ]);
  const head = ["scope", "due", "later", "running", "dead", "unknown", "ignored", "cancelled"];
  const lines = table([...head, ...(counted ? ["done"] : []), "oldest due"], rows);
  return [
    ...(lines.length > 0 ? lines : ["Nothing waits, runs or is parked."]),
    ...(counted || done_about === null ? [] : [`Done: about ${done_about} in all.`]),
    ...(counted ? [] : ["What is done is counted with --exact."]),
  ];
}

function oldest({ oldest_due: due, oldest_running: running }: Status): string[] {
  return [
    ...(due ? [`Oldest due: ${due.scope} ${due.key}, for ${span(due.ms)}`] : []),
    ...(running
      ? [
          `Oldest running: ${running.scope} ${running.key}, for ${span(running.ms)}, by ${running.held_by ?? "?"}`,
        ]
      : []),
  ];
}

function workers({ workers: all }: Status): string[] {
  const there = all.filter((worker) => worker.there);
  if (there.length === 0) return ["No worker has said hello within the last 90 seconds."];
  const lanes = new Set(there.flatMap((worker) => worker.lanes));
  return [`Workers: ${there.length}, for ${[...lanes].toSorted().join(", ")}`];
}

function failures({ failures: all }: Status): string[] {
  if (all.length === 0) return ["No failures within the last hour."];
  const rows = all.map((one) => [one.count, one.dead, time(one.latest_at), one.example.key, one.error]);
  return ["", "Failures of the last hour", ...table(["times", "dead", "latest", "such as", "error"], rows)];
}
