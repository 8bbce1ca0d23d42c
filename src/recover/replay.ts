import { randomBytes } from "node:crypto";
import { OncewardError } from "../errors.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import { laneName } from "../worker/lane.ts";
import { type By, checkBy, type RecoveryContext } from "./context.ts";
import { type AskedState, filterJson, type TaskFilter } from "./filter.ts";
import { isHandled, type Stuck } from "./stuck.ts";

export interface Replayed extends TaskIdentity {
  /**
   * `done`, `running`: left alone. `pruned`: its payload is gone. `missing`: there is no such task. `no handler`: it was
   * ignored, and its type still has no handler here, so that a run could only fail.
   */
  readonly outcome: "replayed" | "replayed again" | "done" | "running" | "pruned" | "missing" | "no handler";
}

export interface ReplayOptions extends By {
  /** Also what is done: a new generation, without the steps of the old one. Effect keys still hold. */
  readonly again?: boolean | undefined;
}

/** The same, but for ignored events that have no handler yet: they are left alone. */
export async function replayHandled(
  context: RecoveryContext,
  tasks: readonly TaskIdentity[],
  options: ReplayOptions,
): Promise<readonly Replayed[]> {
  checkBy(options);
  await context.engine.ready();
  const without = new Set<TaskIdentity>();
  for (const task of tasks) if (await isWithoutHandler(context, task)) without.add(task);
  const handled = tasks.filter((task) => !without.has(task));
  const replayed = (await replayTasks(context.engine, handled, options)).values();
  return tasks.map(({ scope, key }, i) =>
    without.has(tasks[i]!) ? { scope, key, outcome: "no handler" } : replayed.next().value!,
  );
}

/** Of a source that is not connected here nobody knows. */
async function isWithoutHandler({ engine, sources }: RecoveryContext, task: TaskIdentity): Promise<boolean> {
  const source = sources.get(laneName(task.scope));
  if (!source) return false;
  const { state, type } = ((await engine.ledger.verbs.look(task)) ?? {}) as { state?: string; type?: string };
  return state === "ignored" && !source.handles(type ?? "");
}

/** Has tasks run again that are known by name. */
export async function replayTasks(
  engine: Engine,
  tasks: readonly TaskIdentity[],
  options: ReplayOptions,
): Promise<readonly Replayed[]> {
  checkBy(options);
  await engine.ready();
  const { again = false, actor, reason } = options;
  const outcomes = await engine.ledger.verbs.replay(tasks, {
    again,
    actor,
    ...(reason !== undefined && { reason }),
  });
  await wake(
    engine,
    tasks.filter((_, i) => outcomes[i]?.outcome.startsWith("replayed")).map(({ scope }) => scope),
  );
  return tasks.map(({ scope, key }, i) => ({ scope, key, outcome: outcomes[i]!.outcome }));
}

export interface ReplayWhereOptions extends ReplayOptions {
  /** At most so many a second start, so that live work keeps its place. Default 50; Infinity: all at once. */
  readonly rate?: number | undefined;
  /** To go on with under this name if the process dies. Default: a new one. */
  readonly name?: string | undefined;
  /** Told after each batch. */
  readonly onProgress?: ((progress: ReplayProgress) => void) | undefined;
}

export interface ReplayProgress {
  readonly name: string;
  /** How many matched when it began. */
  readonly found: number;
  /** How many have been replayed so far. */
  readonly total: number;
  /** How long until the last of them starts. */
  readonly last_due_in_ms: number;
}

/** An unhurried rate: a second's worth is what a small worker runs beside its live work. */
const defaultRate = 50;
/** Rows are locked until their batch commits; this many take a few hundred milliseconds. */
const batch = 500;

/** What has given up, waits after a failure, or was ignored and has a handler by now. */
export async function replayFilter(
  context: RecoveryContext,
  filter: TaskFilter,
  again = false,
): Promise<string> {
  const states: readonly AskedState[] =
    filter.states ?? (again ? ["dead", "failed", "ignored", "done"] : ["dead", "failed", "ignored"]);
  if (filter.states || !states.includes("ignored")) return filterJson({ ...filter, states });
  const { ignored } = await context.engine.ledger.verbs.call<Stuck>("stuck", ["0", "0", filter.lane]);
  const handled = ignored
    .filter(({ scope, type }) => isHandled(context, scope, type))
    .map(({ scope, type }) => [scope.split("/", 1)[0], type]);
  return filterJson({ ...filter, states }, { handled });
}

/** How many tasks a replay with this filter would take. */
export async function countReplayable(
  context: RecoveryContext,
  filter: TaskFilter,
  options: { again?: boolean | undefined } = {},
): Promise<number> {
  await context.engine.ready();
  const { again = false } = options;
  return context.engine.ledger.verbs.call("replay_count", [
    await replayFilter(context, filter, again),
    String(again),
  ]);
}

/** Those themselves, the newest first. */
export async function findReplayable(
  context: RecoveryContext,
  filter: TaskFilter,
  options: { again?: boolean; max?: number } = {},
): Promise<readonly TaskIdentity[]> {
  await context.engine.ready();
  const { again = false, max = 100 } = options;
  return context.engine.ledger.verbs.call("replay_find", [
    await replayFilter(context, filter, again),
    String(again),
    String(max),
  ]);
}

/** Has everything run again that matches now. */
export async function replayWhere(
  context: RecoveryContext,
  filter: TaskFilter,
  options: ReplayWhereOptions,
): Promise<ReplayProgress> {
  checkBy(options);
  const { again = false, rate = defaultRate, actor, reason, name = randomBytes(4).toString("hex") } = options;
  if (!(rate > 0)) throw new OncewardError("value_invalid", "The rate of a replay is a number above 0.");
  await context.engine.ready();
  const begun = await context.engine.ledger.verbs.call<{ found: number } | { outcome: "refused" }>(
    "replay_begin",
    [
      name,
      await replayFilter(context, filter, again),
      String(again),
      rate === Infinity ? null : String(rate),
      actor,
      reason,
    ],
  );
  if ("outcome" in begun) {
    throw new OncewardError(
      "value_invalid",
      "What can be replayed is dead, failed, ignored, cancelled or unknown; what is done, with `again`.",
    );
  }
  return resumeReplay(context.engine, name, options);
}

/** Goes on with a replay whose process ended half way. */
export async function resumeReplay(
  engine: Engine,
  name: string,
  { onProgress }: Pick<ReplayWhereOptions, "onProgress"> = {},
): Promise<ReplayProgress> {
  await engine.ready();
  for (;;) {
    const next = await engine.ledger.verbs.call<
      (ReplayProgress & { scopes: string[]; ended: boolean }) | { outcome: "missing" }
    >("replay_next", [name, String(batch)]);
    if ("outcome" in next)
      throw new OncewardError("value_invalid", `There is no unfinished replay named ${name}.`);
    await wake(engine, next.scopes);
    const { found, total, last_due_in_ms } = next;
    const progress = { name, found, total, last_due_in_ms };
    onProgress?.(progress);
    if (next.ended) return progress;
  }
}

export interface UnfinishedReplay {
  readonly name: string;
  readonly actor: string;
  readonly reason: string | null;
  readonly begun_at: string;
  readonly moved_at: string;
  readonly found: number;
  readonly total: number;
}

export async function unfinishedReplays(engine: Engine): Promise<readonly UnfinishedReplay[]> {
  await engine.ready();
  return engine.ledger.verbs.call("replays", []);
}

/** Workers look now instead of at their next poll. */
async function wake(engine: Engine, scopes: readonly string[]): Promise<void> {
  const lanes = [...new Set(scopes.map(laneName))];
  if (lanes.length > 0) await engine.ledger.verbs.wake(lanes);
}
