import type { Command } from "commander";
import type { Pruned, PruneRequest } from "../recover/prune.ts";
import type { Retention } from "../recover/retention.ts";
import {
  changingCommand,
  type ChangeOptions,
  type LedgerOptions,
  type Session,
  signed,
  withLedger,
} from "./command.ts";
import { confirm } from "./confirm.ts";
import { Failure } from "./fail.ts";
import { Progress } from "./progress.ts";

interface PruneCommandOptions extends LedgerOptions, ChangeOptions {
  readonly payloads?: string;
  readonly steps?: string;
  readonly keys?: string;
  readonly log?: string;
  readonly audit?: string;
  readonly moves?: string;
  readonly effects?: string;
  readonly lane?: string;
  readonly batch: string;
  readonly override?: boolean;
  readonly dryRun?: boolean;
}

/** `onceward prune`. */
export function pruneCommand(): Command {
  return changingCommand("prune", "forget what is finished and old; payloads first, keys much later")
    .option("--payloads <age>", 'bytes older than this go (the configuration\'s, else "90 days")')
    .option("--steps <age>", 'results of steps ("90 days")')
    .option("--keys <age>", 'whole tasks ("400 days"; below 35 days only with --override)')
    .option("--log <age>", 'what happened to tasks ("90 days")')
    .option("--audit <age>", 'what people changed ("forever")')
    .option("--moves <age>", 'the history of machines ("forever")')
    .option("--effects <age>", 'effect keys ("forever")')
    .option(
      "--lane <lane>",
      "payloads, steps and keys of this lane alone: a source, job/<name>, or any scope",
    )
    .option("--override", "allow keys younger than 35 days to go")
    .option("--batch <rows>", "rows that one statement looks at", "500")
    .option("--dry-run", "only count")
    .action(withLedger(pruneLedger));
}

async function pruneLedger(session: Session, options: PruneCommandOptions): Promise<void> {
  const { recovery, out, config } = session;
  const batch = Number(options.batch);
  if (!Number.isInteger(batch) || batch < 1) throw new Failure("--batch is a whole number above 0.");
  const retention = retentionOf(options, config?.retention);
  const request: PruneRequest = { retention, lane: options.lane, batch };

  const wanted = await recovery.prune({ ...request, dryRun: true });
  const total = sum(wanted);
  if (options.dryRun || total === 0)
    return out.answer({ dry_run: options.dryRun === true, ...wanted }, () =>
      total === 0 ? "Nothing is old enough to go." : `Would go: ${described(wanted)}.`,
    );

  await confirm(`This goes for good: ${described(wanted)}.`, options);
  const progress = new Progress(total);
  const pruned = await recovery
    .prune({ ...request, ...signed(options), onProgress: (so) => progress.show(sum(so)) })
    .finally(() => progress.end());
  out.answer({ dry_run: false, ...pruned }, () => `Gone: ${described(pruned)}.`);
}

/** What was said on the command line goes before the configuration. */
function retentionOf(options: PruneCommandOptions, configured: Retention = {}): Retention {
  const { payloads, steps, keys, log, audit, moves, effects, lane, override } = options;
  const tasks = given({ payloads, steps, keys });
  const others = given({ log, audit, moves, effects });
  const all = { ...configured, ...others, ...given({ override }) };
  if (lane === undefined) return { ...all, ...tasks };
  if (Object.keys(others).length > 0)
    throw new Failure(
      "--lane goes with --payloads, --steps and --keys; the others belong to no single lane.",
    );
  if (Object.keys(tasks).length === 0) return all;
  return { ...all, lanes: { ...all.lanes, [lane]: { ...all.lanes?.[lane], ...tasks } } };
}

function given<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>;
}

function sum(pruned: Pruned): number {
  return Object.values(pruned).reduce((all, n) => all + n, 0);
}

function described(pruned: Pruned): string {
  const names: Record<keyof Pruned, readonly [string, string]> = {
    payloads: ["payload", "payloads"],
    steps: ["step", "steps"],
    keys: ["task with its key", "tasks with their keys"],
    log: ["line of the log", "lines of the log"],
    audit: ["line of the audit", "lines of the audit"],
    moves: ["move of a machine", "moves of machines"],
    effects: ["effect key", "effect keys"],
  };
  const parts = Object.entries(pruned)
    .filter(([, n]) => n > 0)
    .map(([what, n]) => `${n} ${names[what as keyof Pruned][n === 1 ? 0 : 1]}`);
  return parts.length === 0 ? "nothing" : parts.join(", ");
}
