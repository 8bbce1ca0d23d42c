import type { Command } from "commander";
import type { Stuck, StuckReason } from "../recover/stuck.ts";
import { ledgerCommand, withLedger, type LedgerOptions } from "./command.ts";
import { Failure, foundSomething } from "./fail.ts";
import { spanOf } from "./filter.ts";
import { table, time } from "./output.ts";

/** What to do about each. */
const advice: Record<StuckReason, string> = {
  "lease run out": "its worker is gone; start one, it takes over by itself",
  "waiting for its group": "look at the task that comes first: onceward show KEY",
  "no worker seen": "start a worker: onceward serve, or once.start() in your application",
  "no handler": "deploy the code that registers it, or cancel the task",
  "no free worker": "workers are there and do not keep up: start more, or raise their concurrency",
  "unknown outcome": "look in the provider, then: onceward resolve KEY --step NAME --done or --not-done",
  dead: "mend the cause, then: onceward replay KEY, or --where state=dead",
};

interface StuckCommand extends LedgerOptions {
  readonly olderThan: string;
  readonly lane?: string;
  readonly max: string;
}

/** `onceward stuck`: ends with 2 where something is. */
export function stuckCommand(): Command {
  return ledgerCommand("stuck", "what should be moving and is not, and why")
    .option("--older-than <span>", "what is late by less is not stuck yet", "1 minute")
    .option("--lane <name>", "only of a source or job")
    .option("--max <number>", "list at most so many of each reason", "20")
    .action(
      withLedger<StuckCommand>(async ({ recovery, out }, options) => {
        const stuck = await recovery.stuck({
          olderThanMs: lateness(options.olderThan),
          lane: options.lane,
          max: wholeNumber("--max", options.max),
        });
        const revivable = stuck.ignored.filter(({ handled }) => handled);
        if (stuck.groups.length > 0 || revivable.length > 0) foundSomething();
        out.answer(stuck, () => [...described(stuck), ...unhandled(stuck)]);
      }),
    );
}

export function wholeNumber(option: string, text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text))
    throw new Failure(`${option} is a whole number from 1 to 9999999, not "${text}".`);
  return Number(text);
}

function lateness(text: string): number {
  const ms = spanOf(text);
  if (ms === undefined) throw new Failure(`--older-than is a span such as "5 minutes" or 5m, not "${text}".`);
  return ms;
}

function described({ groups, tasks }: Stuck): string[] {
  if (groups.length === 0) return ["Nothing is stuck."];
  const lines = table(
    ["reason", "scope", "count", "since"],
    groups.map((group) => [group.reason, group.scope, group.count, time(group.oldest_at)]),
  );
  for (const reason of new Set(groups.map((group) => group.reason))) {
    const rows = tasks
      .filter((task) => task.reason === reason)
      .map((task) => [task.scope, task.key, time(task.since), about(task)]);
    lines.push("", `${reason}: ${advice[reason]}`, ...table(["scope", "key", "since", "what"], rows));
  }
  return lines;
}

function about({ behind, behind_state, held_by, error, reason }: Stuck["tasks"][number]): string {
  if (behind !== null) return `behind ${behind}${behind_state === null ? "" : ` (${behind_state})`}`;
  if (reason === "lease run out") return `held by ${held_by ?? "?"}`;
  return error ?? "";
}

function unhandled({ ignored }: Stuck): string[] {
  if (ignored.length === 0) return [];
  return [
    "",
    "Ignored, since nothing handled their type: once a handler is there, onceward replay --where state=ignored type=…",
    ...table(
      ["scope", "type", "count", "since", "handler"],
      ignored.map((one) => [
        one.scope,
        one.type,
        one.count,
        time(one.oldest_at),
        one.handled ? "there is one now" : "",
      ]),
    ),
  ];
}
