import type { Command } from "commander";
import { ledgerCommand, withLedger, type LedgerOptions } from "./command.ts";
import { timeOf } from "./filter.ts";
import { table, time } from "./output.ts";
import { wholeNumber } from "./stuck.ts";

interface AuditOptions extends LedgerOptions {
  readonly since?: string;
  readonly until?: string;
  readonly by?: string;
  readonly what?: string;
  readonly key?: string;
  readonly max: string;
}

/** `onceward audit`. */
export function auditCommand(): Command {
  return ledgerCommand("audit", "what people changed, when and why, the newest first")
    .option("--since <time>", 'since then: a time such as 2026-11-16T03:00Z, or "2 hours" ago')
    .option("--until <time>", "before then")
    .option("--by <actor>", "only by this one")
    .option("--what <change>", "only this: replayed, cancelled, resolved, signal, …")
    .option("--key <key>", "only of this key")
    .option("--max <number>", "at most so many", "50")
    .action(
      withLedger<AuditOptions>(async ({ recovery, out }, options) => {
        const { since, until, by: actor, what, key } = options;
        const changes = await recovery.audit({
          actor,
          what,
          key,
          since: since === undefined ? undefined : timeOf("--since", since),
          until: until === undefined ? undefined : timeOf("--until", until),
          max: wholeNumber("--max", options.max),
        });
        out.answer(changes, () =>
          changes.length === 0
            ? "Nobody has changed anything."
            : table(
                ["at", "who", "what", "scope", "key", "why", "detail"],
                changes.map((one) => [
                  time(one.changed_at),
                  one.actor,
                  one.what,
                  one.scope,
                  one.key,
                  one.reason,
                  one.detail,
                ]),
              ),
        );
      }),
    );
}
