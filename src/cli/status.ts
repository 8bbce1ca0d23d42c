import type { Command } from "commander";
import { ledgerCommand, withLedger } from "./command.ts";
import { span, table } from "./output.ts";

/** `onceward status`. */
export function statusCommand(): Command {
  return ledgerCommand("status", "what waits, runs and is parked, by scope").action(
    withLedger(async ({ recovery, out }) => {
      const status = await recovery.status();
      out.answer(status, () =>
        table(
          ["scope", "due", "later", "running", "oldest due"],
          status.unfinished.map((one) => [
            one.scope,
            one.due,
            one.later,
            one.running,
            span(one.oldest_due_ms),
          ]),
        ),
      );
    }),
  );
}
