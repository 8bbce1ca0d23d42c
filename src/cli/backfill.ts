import type { Command } from "commander";
import type { BackfillReport } from "../recover/backfill/backfill.ts";
import { plain } from "../terminal.ts";
import {
  changingCommand,
  type ChangeOptions,
  type LedgerOptions,
  type Session,
  signed,
  withLedger,
} from "./command.ts";
import { confirm } from "./confirm.ts";
import { Failure, foundSomething } from "./fail.ts";
import { timeOf } from "./filter.ts";
import { time } from "./output.ts";
import { Progress } from "./progress.ts";

interface BackfillCommand extends LedgerOptions, ChangeOptions {
  readonly since?: string;
  readonly account?: readonly string[];
  readonly failedOnly?: boolean;
  readonly allTypes?: boolean;
  readonly overlap?: string;
  readonly apiBase?: string;
}

/** `onceward backfill stripe`. */
export function backfillCommand(): Command {
  return changingCommand("backfill", "fetch events that never arrived; the API key is in STRIPE_API_KEY")
    .argument("[source]", "the name of a source of Stripe's events", "stripe")
    .option("--since <time>", 'look at least so far back: a time, or "3 days" ago; Stripe keeps 30 days')
    .option("--account <ids...>", "of these connected accounts (else of the key's own)")
    .option("--failed-only", "only what Stripe could not deliver everywhere, or not yet")
    .option("--all-types", "also keep types that have no handler")
    .option("--overlap <span>", 'look again at so much before where the last one ended ("15 minutes")')
    .option("--api-base <url>", "where Stripe's API is (STRIPE_API_BASE)")
    .action(withLedger(backfillLedger));
}

async function backfillLedger(
  session: Session,
  options: BackfillCommand,
  [source = "stripe"]: readonly string[],
): Promise<void> {
  const { recovery, out, config } = session;
  const apiKey = process.env["STRIPE_API_KEY"];
  if (!apiKey)
    throw new Failure("Set STRIPE_API_KEY to a secret key, or a restricted one that may read events.");
  if (!config)
    throw new Failure("What is fetched is run by your handlers: name a configuration with --config.");
  const since = options.since === undefined ? undefined : timeOf("--since", options.since);
  if (since) {
    await confirm(
      `This looks at events since ${time(since.toISOString())} and runs those that this ledger does not know. Something else may have handled what happened before Onceward was there.`,
      options,
    );
  }
  const reports: BackfillReport[] = [];
  for (const account of options.account ?? [undefined]) {
    const progress = new Progress(1);
    const report = await recovery
      .backfill({
        source,
        apiKey,
        apiBase: options.apiBase ?? process.env["STRIPE_API_BASE"],
        account,
        since,
        failedOnly: options.failedOnly,
        allTypes: options.allTypes,
        overlap: options.overlap,
        by: signed(options),
        onProgress: ({ listed, missing }) =>
          progress.note(`${listed} events looked at, ${missing} were missing`),
      })
      .finally(() => progress.end());
    reports.push(report);
  }
  if (reports.some(needsAttention)) foundSomething();
  out.answer(options.account ? reports : reports[0], () => reports.flatMap(tell));
}

/** Something was missing, so that its cause is worth a look, or did not run; or Stripe sends nothing any more. */
function needsAttention(report: BackfillReport): boolean {
  const { missing, failed, busy, refused, outOfReach, disabled } = report;
  const counts = missing + failed + busy + refused;
  return counts > 0 || outOfReach !== undefined || (disabled?.length ?? 0) > 0;
}

function tell(report: BackfillReport): string[] {
  const { source, account, listed, known, unhandled, missing, pending, failed, busy } = report;
  const { unsubscribed = [] } = report;
  const detail = [`${listed} listed`, `${known} known`, `${missing} missing`];
  if (pending > 0) detail.push(`${pending} of these Stripe still tries to deliver`);
  if (failed > 0) detail.push(`${failed} of these failed`);
  if (busy > 0) detail.push(`${busy} of these did not get to run`);
  if (unhandled > 0) detail.push(`${unhandled} of types without a handler`);
  return [
    `${plain(account === undefined ? source : `${source} ${account}`)}: ${plain(report.sentence)}`,
    `  ${detail.join(", ")}`,
    ...(unsubscribed.length > 0
      ? [`  handled here, and asked for by no endpoint: ${unsubscribed.join(", ")}`]
      : []),
  ];
}
