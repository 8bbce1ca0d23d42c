/** What Onceward wants to reach, and whether this run says that it does. */
import { ours, withHistory } from "./plan.ts";
import {
  ratio,
  ratioAcross,
  summarise,
  summariseStorms,
  type Results,
  type SectionResult,
} from "./results.ts";
import { variants, type VariantName } from "./variants/index.ts";
import type { Variant } from "./variant.ts";

export interface Goal {
  readonly goal: string;
  /** What was measured, and against whom; undefined where this run did not measure it. */
  readonly found: string | undefined;
  readonly met: boolean | undefined;
}

export function checkGoals(results: Results): Goal[] {
  const section = (id: string) => results.sections.find((one) => one.id === id);
  const least = (goal: string, bound: number, measured: Found): Goal =>
    judge(goal, measured, (found) => found >= bound);
  const most = (goal: string, bound: number, measured: Found): Goal =>
    judge(goal, measured, (found) => found <= bound);

  const receive = section("receive-64");
  const jobs = section("jobs");
  const costs = (id: string, name: VariantName = ours) => {
    const one = section(id);
    return one && summarise(one, name)?.costs;
  };
  const bare = costs("limit", "insert")?.walBytes;
  const footprint = results.footprints[ours];
  const largest = Math.max(0, ...results.sections.flatMap((one) => one.seed?.finished ?? 0));

  return [
    least("(a) at least 0.90 of the receiver without a database", 0.9, {
      value: ratio(receive, ours, "http"),
    }),
    least("(a) at least 0.75 of the same server without its database", 0.75, {
      value: ratio(receive, ours, "endpoint"),
    }),
    least(
      "(a) at least 2 times the best pattern written by hand",
      2,
      best(receive, (one) => one.kind === "naive"),
    ),
    least("(a) known events at least 1.5 times as fast as new ones", 1.5, {
      value: ratioAcross(section("receive-64-again"), receive, ours),
    }),
    least(
      "(b) at least 8 times the best peer on Postgres",
      8,
      best(jobs, (one) => one.kind === "peer" && one.store === "postgres"),
    ),
    least("(b) at least 2.5 times BullMQ on Redis", 2.5, { value: ratio(jobs, ours, "bullmq") }),
    least(
      "(b) a backlog drained at least 1.3 times as fast as by the best peer",
      1.3,
      best(section("drain"), (one) => one.kind === "peer"),
    ),
    most("(b) p50 from enqueue to start at most 2 ms", 2, { value: value(section("latency")), unit: "ms" }),
    least(
      "(c) at least 1.5 times the next, with a handler of several events",
      1.5,
      best(section("handle"), (one) => one.kind !== "onceward", "together"),
    ),
    least(
      "(c) the same with a handler of one event",
      1.5,
      best(section("handle"), (one) => one.kind !== "onceward"),
    ),
    least("(d) at least 3 times DBOS", 3, { value: ratio(section("steps"), ours, "dbos") }),
    least("(d) at least 3 times absurd", 3, { value: ratio(section("steps"), ours, "absurd") }),
    ...withHistory.map((workload) =>
      least(
        `(e) ${workload}: with ${largest.toLocaleString("en")} finished at least 0.9 of what it is with none`,
        0.9,
        {
          value: ratioAcross(section(`held-${largest}-${workload}`), section(`held-0-${workload}`), ours),
        },
      ),
    ),
    most("at most 2 statements an event", 2, { value: costs("jobs")?.statements, unit: "" }),
    most("at most 0.1 commits an event", 0.1, { value: costs("jobs")?.commits, unit: "" }),
    most("log at most 1.3 times that of a bare insert, and 450 bytes", bare ? bare * 1.3 + 450 : 0, {
      value: bare && costs("jobs")?.walBytes,
      unit: "bytes",
    }),
    most("(h) p99 of unrelated events below 500 ms in the first storm of a new process, warmed up", 500, {
      value: slowest(results, 0),
      unit: "ms",
    }),
    most("(h) p99 of unrelated events below 500 ms in a later storm", 500, {
      value: slowest(results, 1),
      unit: "ms",
    }),
    most("(g) installed below 1 MB besides the driver and the embedded database", 1, {
      value: footprint?.installMb,
      unit: "MB",
    }),
    most("(g) imported within 60 ms", 60, { value: footprint?.importMs, unit: "ms" }),
  ];
}

interface Found {
  readonly value: number | undefined;
  /** Left out: a ratio. */
  readonly unit?: string;
  readonly against?: string | undefined;
}

function judge(
  goal: string,
  { value: found, unit, against }: Found,
  holds: (value: number) => boolean,
): Goal {
  if (found === undefined || Number.isNaN(found)) return { goal, found: undefined, met: undefined };
  const text =
    unit === undefined ? `${found.toFixed(2)} ×` : `${Number(found.toPrecision(3))} ${unit}`.trim();
  return { goal, found: against ? `${text} (${against})` : text, met: holds(found) };
}

/** Ours against the best of those. */
function best(
  section: SectionResult | undefined,
  which: (variant: Variant) => boolean,
  own: VariantName = ours,
): Found {
  const others = section?.variants.filter((name) => which(variants[name])) ?? [];
  const found = others.flatMap((name) => {
    const times = ratio(section, own, name);
    return times === undefined ? [] : [{ value: times, against: variants[name].title }];
  });
  return found.toSorted((a, b) => a.value - b.value)[0] ?? { value: undefined };
}

/** The longest p99 of unrelated events among all storms, first (0) or later (1) ones. */
function slowest({ sections }: Results, which: 0 | 1): number | undefined {
  const found = sections.flatMap((section) => summariseStorms(section, ours)?.[which].p99Ms ?? []);
  return found.length > 0 ? Math.max(...found) : undefined;
}

function value(section: SectionResult | undefined): number | undefined {
  return section && summarise(section, ours)?.value;
}
