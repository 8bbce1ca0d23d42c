import type { Command } from "commander";
import type { TaskIdentity } from "../ledger/task.ts";
import type { Cancelled } from "../recover/change.ts";
import { changingCommand, signed, withLedger, type ChangeOptions, type LedgerOptions } from "./command.ts";
import { confirm, large } from "./confirm.ts";
import { foundSomething } from "./fail.ts";
import { locate } from "./locate.ts";
import { table } from "./output.ts";

/** `onceward cancel KEY…`. */
export function cancelCommand(): Command {
  return changingCommand("cancel", "what has not finished shall not run any more")
    .argument("<keys...>", "ids of events, or keys of jobs and actions")
    .option("--scope <scope>", "where several have this key: only the one of this scope")
    .action(
      withLedger<LedgerOptions & ChangeOptions & { scope?: string }>(
        async ({ recovery, out }, options, keys) => {
          const tasks: TaskIdentity[] = [];
          const missing: Cancelled[] = [];
          for (const key of keys) {
            const found = await locate(recovery, key, options.scope);
            if (found.length === 0) missing.push({ scope: "", key, outcome: "missing" });
            tasks.push(...found);
          }
          if (tasks.length > large) await confirm(`This cancels ${tasks.length} tasks.`, options);
          const cancelled = [...(await recovery.cancel(tasks, signed(options))), ...missing];
          if (cancelled.some(({ outcome }) => outcome === "missing")) foundSomething();
          out.answer(cancelled, () =>
            table(
              ["scope", "key", "outcome"],
              cancelled.map(({ scope, key, outcome }) => [
                scope,
                key,
                outcome === "cancelled" || outcome === "missing" ? outcome : `${outcome}: left alone`,
              ]),
            ),
          );
        },
      ),
    );
}
