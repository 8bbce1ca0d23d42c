/** What a run measures: sections of one workload each, by all variants that can do it. */
import type { Cell, Workload } from "./cell.ts";
import type { Mode, Variant } from "./variant.ts";
import { variants, type VariantName } from "./variants/index.ts";

export type Extent = "quick" | "default" | "full";

export interface Section {
  readonly id: string;
  readonly title: string;
  /** Sections that are compared with each other take turns as their variants do. */
  readonly group: string;
  readonly workload: Workload;
  readonly options: Pick<Cell, "connections" | "duplicates" | "handlerMs">;
  readonly seed?: { readonly finished: number; readonly waiting: number };
  readonly unit: "events/s" | "ms";
  /** What the others are divided by. */
  readonly reference: VariantName;
  readonly variants: readonly VariantName[];
}

export interface Plan {
  readonly extent: Extent;
  /** Each round runs every variant of a section once, so that what disturbs the machine disturbs all. */
  readonly rounds: number;
  readonly seconds: number;
  readonly sections: readonly Section[];
}

const names = Object.keys(variants) as VariantName[];

/** The variants that are run for what the goals say of Onceward, the whole library first. */
export const ours: VariantName = "onceward";
const naive = names.filter((name) => variants[name].kind === "naive" && variants[name].store === "postgres");

/** Slowest of their kind, or the same package set up in another way: left out where time is short. */
const leftOutOfQuick: ReadonlySet<VariantName> = new Set([
  "naiveSelect",
  "graphile",
  "dbos",
  "absurd",
  "bullmqPostgres",
]);

const able = (mode: Mode, store?: Variant["store"]): VariantName[] =>
  names.filter((name) => {
    const variant: Variant = variants[name];
    return variant.modes.includes(mode) && (store ? variant.store === store : variant.store !== "pglite");
  });

export function makePlan(extent: Extent): Plan {
  const most = extent === "full" ? 10_000_000 : extent === "default" ? 1_000_000 : 100_000;
  const sizes = [0, 100_000, 1_000_000, 10_000_000].filter((size) => size <= most);
  const few: VariantName[] = ["http", ours, ...naive];
  const queues = able("jobs").filter((name) => variants[name].kind !== "naive");
  const sections: Section[] = [
    ...[64, 16, 1].map((connections) =>
      receive({ connections }, connections === 64 || extent === "full" ? able("receive") : few),
    ),
    ...[64, 16, 1].map((connections) =>
      receive(
        { connections, duplicates: true },
        extent === "full" ? able("receive").slice(1) : [ours, ...naive],
      ),
    ),
    {
      ...section(
        "jobs",
        "(b) Enqueue once and process an empty job, 64 callers, from enqueue to done",
        able("jobs"),
      ),
      reference: "pgBoss",
    },
    { ...section("drain", "(b) Drain a backlog of empty jobs", queues), reference: "graphileBatching" },
    {
      ...section("latency", "(b) Latency from enqueue to start at 50 jobs a second, p50", queues),
      unit: "ms",
      reference: "graphile",
    },
    {
      ...section(
        "handle",
        "(c) Receive, answer, and handle with one row written, until all is done, 64 connections",
        able("handle"),
      ),
      options: { connections: 64 },
      reference: "naiveTransaction",
    },
    {
      ...section("steps", "(d) A workflow of three steps, 64 callers, from enqueue to done", able("steps")),
      reference: "dbos",
    },
    storm(
      "storm",
      "(h) One event 1,000 times at once: what 100 unrelated events a second wait for their answers meanwhile",
      {},
    ),
    storm("storm-slow", "(h) The same, and the handler of the one event takes a second", {
      handlerMs: 1_000,
    }),
    {
      ...section("limit", "What Postgres itself does with the payload", ["insert", "insertMany", "copy"]),
      reference: "insert",
    },
    ...(["receive", "jobs"] as const).map((workload) => ({
      ...section(workload, `(f) Embedded: ${workload}, 64 callers`, able(workload, "pglite")),
      id: `embedded-${workload}`,
      group: "embedded",
      options: { connections: 64 },
      reference: "embeddedNaive" as const,
    })),
    ...sizes.flatMap((finished) => seeded({ finished, waiting: 0 })),
    ...seeded({ finished: 100_000, waiting: 100_000 }),
  ];
  const settings = { quick: [1, 1], default: [3, 2], full: [3, 4] } as const;
  const [rounds, seconds] = settings[extent];
  return {
    extent,
    rounds,
    seconds,
    sections: extent === "quick" ? sections.filter(isQuick).map(shorten) : sections,
  };
}

function section(workload: Workload, title: string, list: readonly VariantName[]): Section {
  return {
    id: workload,
    group: workload,
    title,
    workload,
    options: {},
    unit: "events/s",
    reference: list[0]!,
    variants: list,
  };
}

function receive(
  options: { connections: number; duplicates?: boolean },
  list: readonly VariantName[],
): Section {
  const { connections, duplicates } = options;
  const at = `${connections} connection${connections === 1 ? "" : "s"}`;
  return {
    ...section(
      "receive",
      `(a) Receive over HTTP, ${at}, ${duplicates ? "events that are known" : "new events"}`,
      list,
    ),
    id: `receive-${connections}${duplicates ? "-again" : ""}`,
    group: `receive-${connections}`,
    options,
    reference: duplicates ? ours : "http",
  };
}

function storm(id: string, title: string, options: Section["options"]): Section {
  const list: VariantName[] = ["http", ours, "inline", "naiveTransaction"];
  return { ...section("storm", title, list), id, options, unit: "ms" };
}

/** They share a database: what was received waits there for good, and would be handled beside what comes after it. */
export const withHistory = ["jobs", "drain", "steps", "handle", "receive"] as const;

function seeded(seed: { finished: number; waiting: number }): Section[] {
  const label = `${seed.finished}${seed.waiting ? `-${seed.waiting}` : ""}`;
  const held = `${count(seed.finished)} finished${seed.waiting ? ` and ${count(seed.waiting)} waiting` : ""}`;
  return withHistory.map((workload) => ({
    ...section(workload, `(e) ${workload}, in a ledger that holds ${held}`, [ours]),
    options: { connections: 64 },
    id: `held-${label}-${workload}`,
    group: `held-${workload}`,
    seed,
  }));
}

const isQuick = ({ id }: Section): boolean =>
  ["receive-64", "receive-64-again", "jobs", "drain", "latency", "handle", "limit"].includes(id);

function shorten(one: Section): Section {
  const kept = one.variants.filter((name) => !leftOutOfQuick.has(name));
  return { ...one, variants: kept, reference: kept.includes(one.reference) ? one.reference : kept[0]! };
}

export function count(rows: number): string {
  if (rows >= 1_000_000) return `${rows / 1_000_000} M`;
  return rows >= 1_000 ? `${rows / 1_000} k` : String(rows);
}
