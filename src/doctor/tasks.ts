/** Tasks that nobody runs: of a job without a function, of a source that no process has connected. */
import type { LedgerStats } from "../ledger/lane.ts";
import { laneName } from "../worker/lane.ts";
import type { Examination } from "./examination.ts";
import { type Finding, Findings } from "./finding.ts";

/** Workers say hello every half minute. */
const aliveMs = 120_000;

export function judgeTasks(
  { unfinished }: LedgerStats,
  workers: Examination["workers"],
  /** Whether this configuration runs a scope; undefined where there is no configuration. */
  runsHere: ((scope: string) => boolean) | undefined,
): Finding[] {
  const about = new Findings("tasks");
  const alive = workers.filter(({ seen_ms }) => seen_ms < aliveMs).flatMap(({ lanes }) => lanes);
  const orphans = new Map<string, number>();
  let due = 0;
  for (const { scope, due: waiting, later, running } of unfinished) {
    due += waiting;
    const attended = alive.some((lane) => scope === lane || scope.startsWith(`${lane}/`));
    // Actions run where somebody calls them, and what serve does by itself only there.
    if (attended || runsHere?.(scope) || /^(action|run|tool)(\/|$)|^job\/onceward-/.test(scope)) continue;
    const lane = laneName(scope);
    if (runsHere) orphans.set(lane, (orphans.get(lane) ?? 0) + waiting + later + running);
  }
  for (const [lane, count] of orphans)
    about.wrong(
      "no_handler",
      `${count} unfinished ${count === 1 ? "task" : "tasks"} of ${lane}, and neither this configuration nor a running worker knows it.`,
      lane.startsWith("job/")
        ? `Register once.job("${lane.slice(4)}", …) again, or cancel them: onceward cancel.`
        : `Connect the source ${lane} again, or start the process that has it.`,
    );
  if (due > 0 && alive.length === 0)
    about.advice(
      "no_worker",
      `${due} ${due === 1 ? "task is" : "tasks are"} due, and no worker was seen in the last two minutes.`,
      "Start one: `onceward serve`, or `await once.start()` in a process of yours.",
    );
  return about.all;
}
