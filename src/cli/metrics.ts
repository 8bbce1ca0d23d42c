import type { LedgerStats } from "../ledger/lane.ts";
import type { Attempted, Observer } from "../observe.ts";
import type { Receipt } from "../receive/receiver.ts";
import { laneName } from "../worker/lane.ts";

/** Upper bounds of the histograms, in seconds: from a warm request to a slow job. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

interface Histogram {
  readonly counts: number[];
  sum: number;
  count: number;
}

/** Counts what this process does, and writes it down as Prometheus reads it. Labels are lanes, never keys or accounts. */
export class Metrics implements Observer {
  readonly #counters = new Map<string, number>();
  readonly #histograms = new Map<string, Histogram>();

  received(receipt: Receipt): void {
    const { source, outcome, ms } = receipt;
    this.#count(series("onceward_deliveries_total", { source, outcome }));
    this.#measure(series("onceward_delivery_seconds", { source }), ms);
  }

  attempted(attempted: Attempted): void {
    const { lane, outcome, state, ms } = attempted;
    this.#count(series("onceward_attempts_total", { lane, outcome: state ? `failed_${state}` : outcome }));
    this.#measure(series("onceward_attempt_seconds", { lane }), ms);
  }

  troubled(): void {
    this.#count("onceward_database_errors_total");
  }

  /** Everything, with what the ledger says of unfinished and parked tasks. */
  text(stats: LedgerStats): string {
    return [
      ...family(
        "onceward_deliveries_total",
        "counter",
        "Deliveries by outcome.",
        this.#lines("onceward_deliveries_total"),
      ),
      ...family(
        "onceward_attempts_total",
        "counter",
        "Attempts by outcome.",
        this.#lines("onceward_attempts_total"),
      ),
      ...family(
        "onceward_database_errors_total",
        "counter",
        "Times the database could not be asked for work, or a delivery could not be taken.",
        this.#lines("onceward_database_errors_total"),
      ),
      ...family(
        "onceward_delivery_seconds",
        "histogram",
        "From request to answer.",
        this.#buckets("onceward_delivery_seconds"),
      ),
      ...family(
        "onceward_attempt_seconds",
        "histogram",
        "From start to end of an attempt.",
        this.#buckets("onceward_attempt_seconds"),
      ),
      ...ledgerFamilies(stats),
      "",
    ].join("\n");
  }

  #count(name: string): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
  }

  #measure(name: string, ms: number): void {
    let histogram = this.#histograms.get(name);
    if (!histogram)
      this.#histograms.set(name, (histogram = { counts: bounds.map(() => 0), sum: 0, count: 0 }));
    const seconds = ms / 1000;
    const i = bounds.findIndex((bound) => seconds <= bound);
    if (i >= 0) histogram.counts[i]! += 1;
    histogram.sum += seconds;
    histogram.count += 1;
  }

  #lines(name: string): string[] {
    return [...this.#counters]
      .filter(([key]) => key.split("{", 1)[0] === name)
      .map(([key, n]) => `${key} ${n}`);
  }

  #buckets(name: string): string[] {
    return [...this.#histograms]
      .filter(([key]) => key.split("{", 1)[0] === name)
      .flatMap(([key, { counts, sum, count }]) => {
        const labels = key.slice(name.length + 1, -1);
        let below = 0;
        return [
          ...bounds.map((bound, i) => `${name}_bucket{${labels},le="${bound}"} ${(below += counts[i] ?? 0)}`),
          `${name}_bucket{${labels},le="+Inf"} ${count}`,
          `${name}_sum{${labels}} ${sum}`,
          `${name}_count{${labels}} ${count}`,
        ];
      });
  }
}

function ledgerFamilies({ unfinished, parked }: LedgerStats): string[] {
  const tasks = new Map<string, number>();
  const add = (lane: string, state: string, n: number): void => {
    const name = series("onceward_tasks", { lane, state });
    tasks.set(name, (tasks.get(name) ?? 0) + n);
  };
  const oldest = { due: new Map<string, number>(), running: new Map<string, number>() };
  const keep = (of: Map<string, number>, lane: string, ms: number | null): void => {
    if (ms !== null) of.set(lane, Math.max(of.get(lane) ?? 0, ms / 1000));
  };
  for (const { scope, due, later, running, oldest_due_ms, oldest_running_ms } of unfinished) {
    const lane = laneName(scope);
    add(lane, "due", due);
    add(lane, "later", later);
    add(lane, "running", running);
    keep(oldest.due, lane, oldest_due_ms);
    keep(oldest.running, lane, oldest_running_ms);
  }
  for (const { scope, state, count } of parked) add(laneName(scope), state, count);
  const ages = (name: string, of: Map<string, number>): string[] =>
    [...of].map(([lane, seconds]) => `${series(name, { lane })} ${seconds}`);
  return [
    ...family(
      "onceward_tasks",
      "gauge",
      "Unfinished and parked tasks.",
      [...tasks].map(([name, n]) => `${name} ${n}`),
    ),
    ...family(
      "onceward_oldest_due_seconds",
      "gauge",
      "How long the oldest due task has waited.",
      ages("onceward_oldest_due_seconds", oldest.due),
    ),
    ...family(
      "onceward_oldest_running_seconds",
      "gauge",
      "How long the oldest running attempt has run.",
      ages("onceward_oldest_running_seconds", oldest.running),
    ),
  ];
}

function family(name: string, type: string, help: string, lines: string[]): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
}

function series(name: string, labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escape(value)}"`);
  return `${name}{${pairs.join(",")}}`;
}

function escape(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
