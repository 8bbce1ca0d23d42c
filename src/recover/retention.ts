import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import type { TaskState } from "../ledger/task.ts";
import type { Prunable, PruneOptions } from "../ledger/prune.ts";

/** How long something is kept after it was finished: "90 days", a number of ms, or "forever". */
export type Keep = string | number;

/** What belongs to tasks, and can have a rule for a lane or a state. */
export interface TaskRetention {
  /** The bytes of events, inputs of jobs. Default 90 days. A late duplicate is recognised without them. */
  readonly payloads?: Keep | undefined;
  /** Results of steps. Default 90 days. */
  readonly steps?: Keep | undefined;
  /**
   * The tasks themselves. Default 400 days, and not below 35 days without `override`: a key recognises what its sender
   * repeats. Keys that you chose yourself, of actions and of jobs, are kept unless a lane says `keys`.
   */
  readonly keys?: Keep | undefined;
}

export interface LaneRetention extends TaskRetention {
  /** Where a state differs, such as `{ dead: { keys: "forever" } }`. */
  readonly states?: Partial<Readonly<Record<FinishedState, TaskRetention>>> | undefined;
}

/** How long each kind of thing is kept; sql/011_prune.sql says what each is. */
export interface Retention extends LaneRetention {
  /** Where a lane differs: a source, `job/<name>`, or any scope and what is below it. The longest name counts. */
  readonly lanes?: Readonly<Record<string, LaneRetention>> | undefined;
  /** What happened to tasks. Default 90 days; of tasks that still want something it stays. */
  readonly log?: Keep | undefined;
  /** What people changed. Default forever. */
  readonly audit?: Keep | undefined;
  /** The history of machines. Default forever. */
  readonly moves?: Keep | undefined;
  /** Effect keys. Default forever: what is forgotten here can take effect a second time. */
  readonly effects?: Keep | undefined;
  /** Allows keys and effect keys to go before 35 days. Only where you know that nothing is sent again. */
  readonly override?: boolean | undefined;
}

type FinishedState = Exclude<TaskState, "waiting" | "running">;
type OfTasks = keyof TaskRetention;

const states: readonly FinishedState[] = ["done", "ignored", "cancelled", "dead", "unknown"];

/** What somebody may still revive keeps its payload, and what nobody has looked at its key, unless a rule names the state. */
const generalStates: Readonly<Record<OfTasks, readonly FinishedState[]>> = {
  payloads: ["done", "ignored", "cancelled"],
  steps: states,
  keys: ["done", "ignored", "cancelled", "dead"],
};

const defaults = { payloads: "90 days", steps: "90 days", keys: "400 days", log: "90 days" } as const;

/** Stripe can send again for 30 days, and a few more for whoever was away. */
const leastKeysMs = 35 * 86_400_000;

export type PruneRule = Omit<PruneOptions, "after" | "max" | "dryRun" | "actor" | "reason">;

/**
 * The calls of the verb that a retention comes to: payloads first, keys last of what belongs to tasks. With a lane:
 * those alone that concern its tasks.
 */
export function pruneRules(retention: Retention = {}, only?: string): PruneRule[] {
  const lanes = Object.keys(retention.lanes ?? {});
  const ofTasks = [only, ...lanes.filter((lane) => only === undefined || isBelow(lane, only))];
  const others = only === undefined ? (["log", "audit", "moves", "effects"] as const) : [];
  const rules: PruneRule[] = [
    ...(["payloads", "steps", "keys"] as const).flatMap((what) =>
      ofTasks.flatMap((lane) => taskRules(what, lane, retention)),
    ),
    ...others.flatMap((what) => {
      const olderThanMs = kept(what, retention[what] ?? (what === "log" ? defaults.log : "forever"));
      return olderThanMs === undefined ? [] : [{ what, olderThanMs }];
    }),
  ];
  const { override = false } = retention;
  for (const { what, olderThanMs } of rules) {
    if ((what === "keys" || what === "effects") && olderThanMs < leastKeysMs && !override) {
      throw new OncewardError(
        "value_invalid",
        `retention: ${what} younger than 35 days are needed to recognise what a sender still repeats (Stripe: 30 days). ` +
          "Keep them longer, or say `override: true` (as a command: --override) if you know that nothing is sent again.",
      );
    }
  }
  return rules.map((rule) => (override ? { ...rule, override } : rule));
}

/** One rule for all states that are kept equally long. */
function taskRules(what: OfTasks, lane: string | undefined, retention: Retention): PruneRule[] {
  const lanes = Object.keys(retention.lanes ?? {});
  const own = lane === undefined ? undefined : retention.lanes?.[nearest(lanes, lane) ?? ""];
  const below = lanes.filter((other) => lane === undefined || isBelow(other, lane));
  const rules = new Map<string, PruneRule & { readonly states: FinishedState[] }>();
  for (const state of states) {
    const general = generalStates[what].includes(state);
    const said = own?.states?.[state]?.[what] ?? (general ? own?.[what] : undefined);
    const keep =
      said ??
      retention.states?.[state]?.[what] ??
      (general ? (retention[what] ?? defaults[what]) : "forever");
    const olderThanMs = kept(what, keep);
    if (olderThanMs === undefined) continue;
    // Only who names a lane means the keys that were chosen there.
    const chosen = what === "keys" && said !== undefined;
    const rule = rules.get(`${olderThanMs} ${chosen}`) ?? {
      what,
      olderThanMs,
      states: [],
      ...(lane !== undefined && { lane }),
      ...(below.length > 0 && { exceptLanes: below }),
      ...(chosen && { chosen }),
    };
    rule.states.push(state);
    rules.set(`${olderThanMs} ${chosen}`, rule);
  }
  return [...rules.values()];
}

function isBelow(lane: string, above: string): boolean {
  return lane.startsWith(`${above}/`);
}

/** The lane itself where it has rules, else the longest that has and that it is below of. */
function nearest(lanes: readonly string[], lane: string): string | undefined {
  return lanes
    .filter((other) => other === lane || isBelow(lane, other))
    .toSorted((a, b) => b.length - a.length)[0];
}

function kept(what: Prunable, keep: Keep): number | undefined {
  if (keep === "forever") return undefined;
  try {
    return milliseconds(keep);
  } catch (error) {
    throw new OncewardError(
      "value_invalid",
      `retention: ${what} is a duration such as "90 days", or "forever".`,
      {
        cause: error,
      },
    );
  }
}
