/** What a run found, as it is kept in docs/benchmarks.json, and how it is summed up. */
import type { Measured } from "./cell.ts";
import type { Costs } from "./costs.ts";
import type { Plan, Section } from "./plan.ts";
import { median } from "./statistics.ts";
import type { VariantName } from "./variants/index.ts";
import type { Storm } from "./workloads/storm.ts";

export interface SectionResult extends Section {
  /** One figure a round; those that could not run say why. */
  readonly rounds: Readonly<Partial<Record<VariantName, readonly Measured[]>>>;
}

export interface Footprint {
  readonly version: string;
  readonly importMs?: number;
  /** The package and what it depends on, without the database driver. */
  readonly installMb: number;
}

export interface Results extends Pick<Plan, "extent" | "seconds"> {
  readonly at: string;
  readonly machine: Readonly<Record<string, string>>;
  readonly footprints: Readonly<Partial<Record<VariantName, Footprint>>>;
  readonly sections: readonly SectionResult[];
}

export interface Summary {
  readonly value: number;
  /** Lowest and highest of the rounds. */
  readonly range: readonly [number, number];
  /** Median of the ratios within each round; of times, how many times as long. */
  readonly ratio: number;
  readonly p99Ms?: number;
  readonly costs?: Costs;
}

/** The figure of a round: events a second, or milliseconds. */
const figure = (section: Section, measured: Measured | undefined): number | undefined =>
  section.unit === "ms" ? measured?.p50Ms : measured?.rate;

export function summarise(section: SectionResult, name: VariantName): Summary | undefined {
  const rounds = section.rounds[name] ?? [];
  const values = rounds.flatMap((round) => figure(section, round) ?? []);
  if (values.length === 0) return undefined;
  const ratios = rounds.flatMap((round, i) => {
    const own = figure(section, round);
    const reference = figure(section, section.rounds[section.reference]?.[i]);
    return own !== undefined && reference !== undefined ? [own / reference] : [];
  });
  const p99 = rounds.flatMap((round) => round.p99Ms ?? []);
  const costs = rounds.flatMap((round) => round.costs ?? []);
  return {
    value: median(values),
    range: [Math.min(...values), Math.max(...values)],
    ratio: ratios.length > 0 ? median(ratios) : Number.NaN,
    ...(p99.length > 0 && { p99Ms: median(p99) }),
    ...(costs.length > 0 && { costs: medianCosts(costs) }),
  };
}

function medianCosts(costs: readonly Costs[]): Costs {
  const names = Object.keys(costs[0]!) as (keyof Costs)[];
  return Object.fromEntries(
    names.map((name) => [name, median(costs.map((one) => one[name]))]),
  ) as unknown as Costs;
}

/** One variant divided by another: the median over the rounds in which both ran. */
export function ratio(
  section: SectionResult | undefined,
  name: VariantName,
  other: VariantName,
): number | undefined {
  if (!section) return undefined;
  const summary = summarise({ ...section, reference: other }, name);
  return summary && !Number.isNaN(summary.ratio) ? summary.ratio : undefined;
}

/** One variant in a section divided by itself in another section of the same group. */
export function ratioAcross(
  above: SectionResult | undefined,
  below: SectionResult | undefined,
  name: VariantName,
): number | undefined {
  if (!above || !below || above.id === below.id) return undefined;
  const rounds = above.rounds[name]?.flatMap((round, i) => {
    const [a, b] = [figure(above, round), figure(below, below.rounds[name]?.[i])];
    return a !== undefined && b !== undefined ? [a / b] : [];
  });
  return rounds && rounds.length > 0 ? median(rounds) : undefined;
}

export interface StormSummary extends Pick<Storm, "p50Ms" | "p99Ms" | "maxMs"> {
  /** Lowest and highest p99 of the rounds. */
  readonly range: readonly [number, number];
}

/** Medians over the rounds: of the first storms of new processes, and of later ones. */
export function summariseStorms(
  section: SectionResult,
  name: VariantName,
): readonly [StormSummary, StormSummary] | undefined {
  const rounds = section.rounds[name]?.flatMap(({ storms }) => (storms ? [storms] : [])) ?? [];
  if (rounds.length === 0) return undefined;
  const summary = (which: 0 | 1): StormSummary => {
    const all = (key: "p50Ms" | "p99Ms" | "maxMs") => rounds.map((storms) => storms[which][key]);
    const p99 = all("p99Ms");
    return {
      p50Ms: median(all("p50Ms")),
      p99Ms: median(p99),
      maxMs: median(all("maxMs")),
      range: [Math.min(...p99), Math.max(...p99)],
    };
  };
  return [summary(0), summary(1)];
}
