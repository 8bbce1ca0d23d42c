import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import type { TaskIdentity } from "../ledger/task.ts";
import type { TaskFilter } from "../recover/filter.ts";
import type { Replayed, ReplayProgress } from "../recover/replay.ts";
import { plain } from "../terminal.ts";
import { changingCommand, signed, withLedger } from "./command.ts";
import type { ChangeOptions, LedgerOptions, Session } from "./command.ts";
import { confirm, large } from "./confirm.ts";
import { dryRunTasks } from "./dry-run.ts";
import { Failure, foundSomething } from "./fail.ts";
import { filterOf, filterOptions, type FilterOptions } from "./filter.ts";
import { eventItself, locate } from "./locate.ts";
import { span, table } from "./output.ts";
import { Progress } from "./progress.ts";
import { wholeNumber } from "./stuck.ts";

interface ReplayCommand extends LedgerOptions, ChangeOptions, FilterOptions {
  readonly again?: boolean;
  readonly rate?: string;
  readonly resume?: string;
  readonly dryRun?: boolean;
  readonly values?: boolean;
  readonly limit?: string;
  readonly max: string;
}

/** `onceward replay`. */
export function replayCommand(): Command {
  return filterOptions(changingCommand("replay", "run dead, failed or ignored tasks again"))
    .argument("[keys...]", "ids of events, or keys of jobs and actions; or say which with the options")
    .option("--again", "also what is done: a new generation on purpose; effect keys still hold")
    .option("--rate <number>", 'start at most so many a second, or "all" at once (50)')
    .option(
      "--dry-run",
      "run them in a transaction that is rolled back, and say what they would change and call",
    )
    .option("--values", "with --dry-run: show values of columns, which can be personal data")
    .option("--limit <span>", 'with --dry-run: how long each may take ("10 seconds")')
    .option("--max <number>", "with --dry-run and filters: at most so many", "20")
    .option("--resume <name>", "go on with a replay that ended half way")
    .action(
      withLedger<ReplayCommand>(async (session, options, keys) => {
        if (options.resume !== undefined) return resume(session, options.resume);
        if (keys.length > 0) return byKey(session, options, keys);
        const filter = filterOf(options);
        if (filter) return byFilter(session, options, filter);
        throw new Failure(
          `Say which: keys, or filters such as --where state=dead.${await unfinished(session)}`,
        );
      }),
    );
}

async function byKey(session: Session, options: ReplayCommand, keys: readonly string[]): Promise<void> {
  const { recovery, out } = session;
  const tasks: TaskIdentity[] = [];
  const missing: Replayed[] = [];
  for (const key of keys) {
    const found = await locate(recovery, key, options.scope);
    if (found.length === 0) missing.push({ scope: "", key, outcome: "missing" });
    tasks.push(...(options.again ? again(key, found) : found));
  }
  if (options.dryRun) {
    for (const { key } of missing) out.note(`There is no task with the key ${plain(key)}.`);
    return dryRunTasks(session, tasks, options);
  }
  if (tasks.length > large) await confirm(`This replays ${tasks.length} tasks.`, options);
  const replayed = await recovery.replay(tasks, { ...signed(options), again: options.again });
  const all = [...replayed, ...missing];
  if (all.some(({ outcome }) => ["missing", "pruned", "running", "no handler"].includes(outcome)))
    foundSomething();
  out.answer(all, () =>
    table(
      ["scope", "key", "outcome"],
      all.map(({ scope, key, outcome }) => [scope, key, said[outcome]]),
    ),
  );
}

const said: Record<Replayed["outcome"], string> = {
  replayed: "replayed: it runs again, and keeps its finished steps",
  "replayed again": "replayed again: a new generation; effect keys still hold",
  done: "done: left alone; --again runs it once more",
  running: "running: left alone",
  pruned: "pruned: its payload is gone, so it cannot run",
  missing: "missing: there is no such task",
  "no handler": "no handler: left alone; write one for its type, then replay it",
};

/** An event that runs again has each of its handlers run again: theirs are not to be counted twice. */
function again(key: string, found: readonly TaskIdentity[]): readonly TaskIdentity[] {
  const events = eventItself(found);
  const chosen = events.length > 0 ? events : found;
  if (chosen.length > 1) {
    const scopes = chosen.map(({ scope }) => scope).join(", ");
    throw new Failure(`Several tasks have the key ${plain(key)}: say --scope, one of ${plain(scopes)}.`);
  }
  return chosen;
}

async function byFilter(session: Session, options: ReplayCommand, filter: TaskFilter): Promise<void> {
  const { recovery, out, once } = session;
  if (options.dryRun) {
    const max = wholeNumber("--max", options.max);
    const tasks = await recovery.replayable(filter, { again: options.again === true, max });
    if (tasks.length === max) out.note(`There may be more: these are the newest ${max}; say --max.`);
    return dryRunTasks(session, tasks, options);
  }
  const by = { ...signed(options), again: options.again, rate: rateOf(options.rate) };
  const found = await recovery.countReplayable(filter, { again: options.again === true });
  if (once.sources.size === 0 && filter.states === undefined)
    out.note("Ignored events are left alone: only a configuration says which types have a handler by now.");
  if (found === 0) return out.answer({ found, total: 0 }, () => "Nothing matches that can be replayed.");
  if (found > large || options.again)
    await confirm(
      `This replays ${found} tasks${options.again ? ", those that are done included" : ""}.`,
      options,
    );
  const name = randomBytes(4).toString("hex");
  out.note(`If it is interrupted: onceward replay --resume ${name}`);
  const progress = new Progress(found);
  const ended = await recovery
    .replayWhere(filter, { ...by, name, onProgress: ({ total }) => progress.show(total) })
    .finally(() => progress.end());
  out.answer(ended, () => sentence(ended));
}

async function resume({ recovery, out }: Session, name: string): Promise<void> {
  let progress: Progress | undefined;
  const ended = await recovery
    .resumeReplay(name, {
      onProgress({ found, total }) {
        progress ??= new Progress(found);
        progress.show(total);
      },
    })
    .finally(() => progress?.end());
  out.answer(ended, () => sentence(ended));
}

function sentence({ found, total, last_due_in_ms }: ReplayProgress): string {
  const last = last_due_in_ms > 1_000 ? `, the last of them in ${span(last_due_in_ms)}` : "";
  const rest = total < found ? ` ${found - total} more had been changed by somebody else by then.` : "";
  return `${total} tasks run again${last}.${rest}`;
}

async function unfinished({ recovery }: Session): Promise<string> {
  const open = await recovery.unfinishedReplays();
  if (open.length === 0) return "";
  const names = open.map(({ name, total, found }) => `--resume ${name} (${total} of ${found})`);
  return ` Or go on with ${names.join(", ")}.`;
}

function rateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text === "all") return Infinity;
  const rate = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || !(rate > 0))
    throw new Failure(`--rate is a number of tasks a second, or "all", not "${text}".`);
  return rate;
}
