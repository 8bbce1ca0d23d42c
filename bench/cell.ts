/**
 * One cell of a table: one variant, one workload, one round, in a process of its own, so that no variant
 * inherits another's warm code, garbage or connections.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { pathToFileURL } from "node:url";
import type { Costs } from "./costs.ts";
import { countStatements } from "./costs.ts";
import { variants, type VariantName } from "./variants/index.ts";
import { drain, enqueueToDone, latency } from "./workloads/jobs.ts";
import { handle, receive } from "./workloads/receive.ts";
import { limit } from "./workloads/limits.ts";
import { storm, type Storm } from "./workloads/storm.ts";
import type { Variant } from "./variant.ts";

export const workloads = {
  receive,
  handle,
  jobs: enqueueToDone,
  steps: enqueueToDone,
  drain,
  latency,
  limit,
  storm,
};
export type Workload = keyof typeof workloads;

export interface Cell {
  readonly workload: Workload | "prepare";
  readonly variant: VariantName;
  /** The variant's own database; its folder, where it is embedded. */
  readonly database: string;
  readonly redis: string;
  /** The process whose CPU is the store's; undefined where the store is inside the cell. */
  readonly storePid?: number;
  readonly seconds: number;
  readonly connections?: number;
  /** Deliver known events again instead of new ones. */
  readonly duplicates?: boolean;
  /** Storms: how long the handler of the one event takes, besides its row. */
  readonly handlerMs?: number;
  /** A folder for the CPU profile of the cell. */
  readonly profile?: string;
  /** Only to prepare: what the ledger holds already. */
  readonly seed?: { readonly finished: number; readonly waiting: number };
}

export interface Measured {
  /** Events a second. */
  readonly rate?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** The first storm of a new process, and a later one. */
  readonly storms?: readonly [Storm, Storm];
  readonly costs?: Costs;
  /** CPU of the load generator, µs a request. */
  readonly loadCpuUs?: number;
  /** From opening the variant, on tables that exist, until it could take work. */
  readonly startMs?: number;
  /** The most memory that the process held, beyond what it held before the variant was loaded. */
  readonly rssMb?: number;
  /** Why there is no figure. */
  readonly failure?: string;
}

/** A cell that hangs is a failure, not the end of the run. */
const PATIENCE_MS = 120_000;

export async function runCell(cell: Cell): Promise<Measured> {
  const { workload, variant, profile } = cell;
  const name = `${workload}-${variant}.cpuprofile`;
  const child = fork(new URL(import.meta.url), [JSON.stringify(cell)], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    execArgv: profile ? ["--cpu-prof", `--cpu-prof-dir=${profile}`, `--cpu-prof-name=${name}`] : [],
  });
  let complaint = "";
  child
    .stderr!.setEncoding("utf8")
    .on("data", (text: string) => (complaint = (complaint + text).slice(-2000)));
  let measured: Measured | undefined;
  child.on("message", (message) => (measured = message as Measured));
  const patience = workload === "prepare" ? 20 * PATIENCE_MS : PATIENCE_MS;
  const timer = setTimeout(() => child.kill("SIGKILL"), patience);
  await once(child, "close");
  clearTimeout(timer);
  const reason = child.signalCode ? `no end within ${patience / 1000} s` : complaint.trim();
  return measured ?? { failure: reason || "ended without a figure" };
}

async function prepare(variant: Variant, cell: Cell): Promise<Measured> {
  await variant.prepare?.(cell);
  if (cell.seed) await variant.seed?.(cell.database, cell.seed);
  return {};
}

async function main(cell: Cell): Promise<void> {
  process.once("disconnect", () => process.exit(1)); // Whoever asked has ended.
  const variant: Variant = variants[cell.variant];
  countStatements(variant.store);
  const bare = process.memoryUsage().rss / 2 ** 20;
  await variant.load?.();
  const measured = await (cell.workload === "prepare"
    ? prepare(variant, cell)
    : workloads[cell.workload](variant, cell));
  const rssMb = process.resourceUsage().maxRSS / 1024 - bare;
  process.send!({ ...measured, rssMb } satisfies Measured, () => process.exit());
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(JSON.parse(process.argv[2]!) as Cell);
}
