/** The tables of docs/benchmarks.md. */
import { readFileSync } from "node:fs";
import type { Costs } from "./costs.ts";
import { checkGoals, type Goal } from "./goals.ts";
import { count, makePlan, ours } from "./plan.ts";
import { ratio, summarise, summariseStorms, type Results, type SectionResult } from "./results.ts";
import { median } from "./statistics.ts";
import { variants, type VariantName } from "./variants/index.ts";

const title = (name: VariantName): string =>
  name === ours ? `**${variants[name].title}**` : variants[name].title;

export function report(results: Results): string {
  const plain = results.sections.filter((one) => !one.seed);
  return [
    "# Benchmarks",
    `Written by \`npm run bench\` on ${results.at}. Everything ran on one machine, what is compared in one run, on one ` +
      `Postgres with one payload (a Stripe event of 3.4 KB), each variant in a process and a database of its own. The ` +
      `server is as one that has been running: it uses segments of its log again, and has touched its memory. ` +
      `Variants take turns, round after round; a figure is the median of the rounds, a ratio the median of the ratios ` +
      `within each round. Ratios travel to other machines, events a second do not.`,
    "![Events a second of every variant](benchmarks.svg)",
    table(["", ""], Object.entries(results.machine)),
    leftOut(results),
    "## Goals",
    goals(checkGoals(results)),
    readFileSync(new URL("missed.md", import.meta.url), "utf8").trim(),
    "## Results",
    ...plain.flatMap((section) => [
      `### ${section.title}`,
      section.workload === "storm" ? stormsOf(section) : ratesOf(section),
    ]),
    held(results),
    "## What an event costs",
    "Statements as the driver sends them; commits, bytes without full-page images, and index writes as the write-ahead log " +
      `has them.${generator(plain)}`,
    ...["receive-64", "jobs", "drain", "handle", "steps", "limit"].flatMap((id) =>
      costsOf(plain.find((one) => one.id === id)),
    ),
    "## What it weighs",
    weights(results),
    "## How each was set up",
    notes(plain),
  ]
    .filter((part) => part !== "")
    .join("\n\n")
    .concat("\n");
}

function leftOut({ sections }: Results): string {
  const measured = new Set(sections.map(({ id }) => id));
  const missing = makePlan("full").sections.filter(({ id }) => !measured.has(id));
  return missing.length > 0 ? `Not measured: ${missing.map((one) => one.title).join("; ")}.` : "";
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, i) => (i === 0 ? "---" : "---:"));
  return [head, rule, ...rows].map(line).join("\n");
}

function goals(list: readonly Goal[]): string {
  const met = (goal: Goal) => (goal.met === undefined ? "not measured" : goal.met ? "yes" : "**no**");
  return table(
    ["goal", "measured", "met"],
    list.map((one) => [one.goal, one.found ?? "", met(one)]),
  );
}

function ratesOf(section: SectionResult): string {
  const slow = section.unit === "ms";
  const head = [
    "",
    slow ? "p50, ms" : "events/s",
    slow ? "p99, ms" : "range",
    `÷ ${variants[section.reference].title}`,
    "Onceward ÷ this",
  ];
  const found = section.variants.map((name) => ({ name, summary: summarise(section, name) }));
  const order = slow ? 1 : -1;
  found.sort(
    (a, b) => order * ((a.summary?.value ?? Infinity * order) - (b.summary?.value ?? Infinity * order)),
  );
  return table(
    head,
    found.map(({ name, summary }) => {
      if (!summary) return [title(name), reason(section, name), "", "", ""];
      const { value, range, p99Ms } = summary;
      const spread = slow ? ms(p99Ms) : range.map(whole).join(" – ");
      return [
        title(name),
        slow ? ms(value) : whole(value),
        spread,
        times(summary.ratio),
        times(ratio(section, ours, name)),
      ];
    }),
  );
}

/** The first storm of a new process, whose code was never run, beside a later one. */
function stormsOf(section: SectionResult): string {
  const columns = ["p50, ms", "p99, ms", "range of p99", "longest, ms"];
  const head = ["first", "later"].flatMap((which) => columns.map((column) => `${which}: ${column}`));
  const rows = section.variants.map((name) => {
    const storms = summariseStorms(section, name);
    if (!storms) return [title(name), reason(section, name)];
    const figures = storms.flatMap(({ p50Ms, p99Ms, maxMs, range }) => [
      whole(p50Ms),
      whole(p99Ms),
      range.map(whole).join(" – "),
      whole(maxMs),
    ]);
    return [title(name), ...figures, answersOf(section, name)];
  });
  return table(["", ...head, "answers to the one event"], rows);
}

/** By status, of all rounds together. */
function answersOf(section: SectionResult, name: VariantName): string {
  const counts = new Map<string, number>();
  for (const { statuses } of section.rounds[name]?.flatMap(({ storms }) => storms ?? []) ?? []) {
    for (const [status, n] of Object.entries(statuses)) counts.set(status, (counts.get(status) ?? 0) + n);
  }
  return [...counts].map(([status, n]) => `${status}: ${whole(n)}`).join(", ");
}

function reason(section: SectionResult, name: VariantName): string {
  const failure = section.rounds[name]?.find((one) => one.failure)?.failure ?? "";
  const said = failure.split("\n").find((line) => /Error|:/.test(line)) ?? failure;
  return `not run: ${said.trim().replaceAll("|", "/")}`;
}

/** Workloads down, what the ledger holds across. */
function held(results: Results): string {
  const sections = results.sections.filter((one) => one.seed);
  if (sections.length === 0) return "";
  const label = ({ seed }: SectionResult) =>
    `${count(seed!.finished)} finished${seed!.waiting ? `, ${count(seed!.waiting)} waiting` : ""}`;
  const labels = [...new Set(sections.map(label))];
  const rows = [...new Set(sections.map((one) => one.workload))].map((workload) => [
    workload,
    ...labels.map((one) => {
      const section = sections.find((each) => each.workload === workload && label(each) === one);
      const value = section && summarise(section, ours)?.value;
      return value === undefined ? "" : whole(value);
    }),
  ]);
  return `### (e) With a history: events/s of Onceward by what the ledger holds\n\n${table(["", ...labels], rows)}`;
}

function costsOf(section: SectionResult | undefined): string[] {
  if (!section) return [];
  const columns: [keyof Costs, string, number][] = [
    ["statements", "statements", 2],
    ["commits", "commits", 2],
    ["walBytes", "log, bytes", 0],
    ["indexWrites", "index writes", 1],
    ["nodeCpuUs", "CPU of Node, µs", 0],
    ["storeCpuUs", "CPU of the store, µs", 0],
  ];
  const rows = section.variants.flatMap((name) => {
    const costs = summarise(section, name)?.costs;
    return costs ? [[title(name), ...columns.map(([key, , digits]) => costs[key].toFixed(digits))]] : [];
  });
  return [`### ${section.title}`, table(["", ...columns.map(([, label]) => label)], rows)];
}

/** So that one sees that it was not what limits. */
function generator(sections: readonly SectionResult[]): string {
  const spent = sections.flatMap((one) =>
    Object.values(one.rounds)
      .flat()
      .flatMap((round) => round?.loadCpuUs ?? []),
  );
  return spent.length > 0 ? ` The load generator took ${whole(median(spent))} µs of CPU a request.` : "";
}

function weights({ footprints, sections }: Results): string {
  const rows = (Object.keys(footprints) as VariantName[]).map((name) => {
    const { version, installMb, importMs } = footprints[name]!;
    const runs = sections.filter((one) => one.id === "jobs").flatMap((one) => one.rounds[name] ?? []);
    const middle = (values: number[]) => (values.length > 0 ? whole(median(values)) : "");
    return [
      title(name),
      version,
      installMb.toFixed(1),
      importMs === undefined ? "" : whole(importMs),
      middle(runs.flatMap((run) => run.startMs ?? [])),
      middle(runs.flatMap((run) => run.rssMb ?? [])),
    ];
  });
  return table(
    ["", "version", "installed, MB without driver", "import, ms", "start, ms", "memory added, MB"],
    rows,
  );
}

function notes(sections: readonly SectionResult[]): string {
  const names = [...new Set(sections.flatMap((one) => one.variants))];
  return names.map((name) => `- ${title(name)}: ${variants[name].notes}`).join("\n");
}

const whole = (value: number): string => Math.round(value).toLocaleString("en");
const ms = (value: number | undefined): string => (value === undefined ? "" : value.toFixed(1));
const times = (value: number | undefined): string =>
  value === undefined || Number.isNaN(value) ? "" : value >= 10 ? value.toFixed(1) : value.toFixed(2);
