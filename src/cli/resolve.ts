import type { Command } from "commander";
import { plain } from "../terminal.ts";
import { changingCommand, signed, withLedger, type ChangeOptions, type LedgerOptions } from "./command.ts";
import { Failure } from "./fail.ts";
import { jsonOf, locateOne } from "./locate.ts";

interface ResolveOptions extends LedgerOptions, ChangeOptions {
  readonly scope?: string;
  readonly step: string;
  readonly done?: boolean;
  readonly notDone?: boolean;
  readonly value?: string;
}

/** `onceward resolve KEY --step NAME --done | --not-done`. */
export function resolveCommand(): Command {
  return changingCommand(
    "resolve",
    "say what became of a step whose outcome is unknown; the task then goes on",
  )
    .argument("<key>", "the key of the task")
    .requiredOption("--step <name>", "the step")
    .option("--done", "its effect took place")
    .option("--not-done", "it did not: the step runs again")
    .option("--value <json>", "with --done: what the step returned")
    .option("--scope <scope>", "where several have this key: the one of this scope")
    .action(
      withLedger<ResolveOptions>(async ({ recovery, out }, options, [key = ""]) => {
        const { scope, step, done, notDone, value } = options;
        if ((done === true) === (notDone === true)) throw new Failure("Say either --done or --not-done.");
        const task = await locateOne(recovery, key, scope);
        const { outcome } = await recovery.resolve(task, {
          ...signed(options),
          step,
          decision: done ? "done" : "not done",
          value: value === undefined ? undefined : jsonOf(value),
        });
        if (outcome === "missing")
          throw new Failure(`${plain(key)} has no step ${plain(step)} whose outcome is unknown.`);
        out.answer({ ...task, step, outcome }, () => `Resolved; ${plain(key)} goes on.`);
      }),
    );
}
