import type { Command } from "commander";
import type { TaskFilter } from "../recover/filter.ts";
import { ledgerCommand, withLedger, type LedgerOptions } from "./command.ts";
import { filterOf, filterOptions, type FilterOptions } from "./filter.ts";
import { table, time } from "./output.ts";
import { wholeNumber } from "./stuck.ts";

/** States whose tasks are found without reading the history. */
const indexed = new Set(["waiting", "failed", "running", "dead", "unknown", "ignored", "cancelled"]);

const day = 86_400_000;

/** `onceward list`. */
export function listCommand(): Command {
  return filterOptions(ledgerCommand("list", "tasks by what you know of them, the newest first"))
    .option("--max <number>", "at most so many", "50")
    .action(
      withLedger<LedgerOptions & FilterOptions & { max: string }>(async ({ recovery, out }, options) => {
        const max = wholeNumber("--max", options.max);
        const filter = bounded(filterOf(options) ?? {}, (text) => out.note(text));
        const tasks = await recovery.list({ ...filter, max });
        const fetched = tasks.some(({ origin }) => origin !== null) ? ["came by"] : [];
        out.answer(tasks, () =>
          tasks.length === 0
            ? "Nothing matches."
            : table(
                ["recorded", "scope", "key", "type", "state", "attempt", ...fetched, "error"],
                tasks.map((task) => [
                  time(task.created_at),
                  task.scope,
                  task.key,
                  task.type,
                  task.state,
                  task.attempt,
                  ...fetched.map(() => task.origin),
                  task.state === "done" ? "" : task.reason,
                ]),
              ),
        );
        if (tasks.length === max)
          out.note(`There may be more: these are the newest ${max}; say --max or --until.`);
      }),
    );
}

/** Without a time, and where the states do not bound it, the last day: the history can be long. */
function bounded(filter: TaskFilter, note: (text: string) => void): TaskFilter {
  if (filter.since || filter.scope !== undefined || filter.states?.every((state) => indexed.has(state)))
    return filter;
  note("Of the last day; say --since for more.");
  const end = filter.until?.getTime() ?? Date.now();
  return { ...filter, since: new Date(end - day) };
}
