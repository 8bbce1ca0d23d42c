/**
 * npm run bench [-- --quick | --full] [--sections jobs,drain] [--variants ledger,pgBoss] [--out folder]
 * [--rounds 3] [--seconds 4] [--profile folder] [--add]
 * Measures, and writes benchmarks.json, benchmarks.md and benchmarks.svg, by default into docs/. `--add` keeps the
 * sections that are there and were not measured now.
 */
import { existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { arch, cpus, release, tmpdir, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { keep } from "../test/support/postgres-keeper.ts";
import { runCell, type Cell, type Measured } from "./cell.ts";
import { chart } from "./chart.ts";
import { withClient } from "./database.ts";
import { footprintOf, ownFootprint } from "./footprint.ts";
import { makePlan, ours, type Plan, type Section } from "./plan.ts";
import { report } from "./report.ts";
import type { Footprint, Results, SectionResult } from "./results.ts";
import { settle } from "./steady.ts";
import { startRedis, startStore, type RedisServer } from "./stores.ts";
import type { Variant } from "./variant.ts";
import { variants, type VariantName } from "./variants/index.ts";

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    full: { type: "boolean", default: false },
    sections: { type: "string" },
    variants: { type: "string" },
    rounds: { type: "string" },
    seconds: { type: "string" },
    add: { type: "boolean", default: false },
    profile: { type: "string" },
    out: { type: "string", default: fileURLToPath(new URL("../docs", import.meta.url)) },
  },
});

const postgres = await startStore();
const redis = await startRedis();
/** Of embedded databases; it goes with us, however we end. */
const folder = mkdtempSync(join(tmpdir(), "onceward-bench-"));
const keeper = keep(folder);
const known = new Set<string>();
try {
  const plan = chosen(makePlan(flags.full ? "full" : flags.quick ? "quick" : "default"));
  const groups = Map.groupBy(plan.sections, (section) => section.group);
  const sections: SectionResult[] = [];
  for (const group of groups.values()) sections.push(...(await measure(group, plan)));
  const results = added({
    at: new Date().toISOString().slice(0, 10),
    extent: plan.extent,
    seconds: plan.seconds,
    machine: machine(redis),
    footprints: footprints(plan),
    sections,
  });
  mkdirSync(flags.out, { recursive: true });
  writeFileSync(join(flags.out, "benchmarks.json"), `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(join(flags.out, "benchmarks.md"), report(results));
  writeFileSync(join(flags.out, "benchmarks.svg"), chart(results));
  console.log(report(results));
} finally {
  await keeper.end();
  await redis?.stop();
  await postgres.stop();
}

/** With what earlier runs found, where it is asked for; in the order of the plan. */
function added(results: Results): Results {
  const file = join(flags.out, "benchmarks.json");
  if (!flags.add || !existsSync(file)) return results;
  const earlier = JSON.parse(readFileSync(file, "utf8")) as Results;
  const found = new Map([...earlier.sections, ...results.sections].map((one) => [one.id, one]));
  return {
    ...results,
    footprints: { ...earlier.footprints, ...results.footprints },
    sections: makePlan("full").sections.flatMap(({ id }) => found.get(id) ?? []),
  };
}

function chosen(plan: Plan): Plan {
  const only = (list: string | undefined) => list?.split(",");
  const [ids, names] = [only(flags.sections), only(flags.variants)];
  const sections = plan.sections
    .filter(({ id }) => !ids || ids.includes(id))
    .map((one) => ({ ...one, variants: one.variants.filter((name) => !names || names.includes(name)) }))
    .filter((one) => one.variants.length > 0);
  const { rounds = plan.rounds, seconds = plan.seconds } = flags;
  return { ...plan, rounds: Number(rounds), seconds: Number(seconds), sections };
}

/** All variants of all these sections in turn, and that several times. */
async function measure(group: readonly Section[], plan: Plan): Promise<SectionResult[]> {
  const results = group.map((section) => ({ ...section, rounds: {} as Record<string, Measured[]> }));
  for (let round = 1; round <= plan.rounds; round++) {
    for (const { rounds, ...section } of results) {
      console.error(`\n${section.title}, round ${round} of ${plan.rounds}`);
      for (const name of section.variants) {
        const failed = rounds[name]?.find((one) => one.failure);
        const measured = failed ?? (await measureOne(section, name, plan));
        (rounds[name] ??= []).push(measured);
        console.error(`  ${variants[name].title.padEnd(42)} ${said(section, measured)}`);
      }
    }
  }
  return results;
}

async function measureOne(section: Section, name: VariantName, { seconds }: Plan): Promise<Measured> {
  const variant: Variant = variants[name];
  const missing = variant.missing?.();
  if (missing) return { failure: missing };
  const cell = await cellOf(section, name, seconds);
  if (!known.has(cell.database)) {
    known.add(cell.database);
    const { failure } = await runCell({ ...cell, workload: "prepare" });
    if (failure) return { failure };
  }
  await settle(postgres.url);
  const measured = await runCell(cell);
  if (!section.seed) await forget(cell.database, variant.store);
  return measured;
}

/**
 * What a cell has left is no work for the next one. Pages that it has changed are written out by whoever needs their
 * buffers, and its tables are vacuumed a minute later: receiving at 64 connections in the second and the third round, that
 * was a quarter of what Postgres spent on an event.
 */
async function forget(database: string, store: Variant["store"]): Promise<void> {
  known.delete(database);
  if (store === "redis") await redis?.flush();
  if (store === "pglite") return rmSync(database, { recursive: true, force: true });
  const name = new URL(database).pathname.slice(1);
  await withClient(postgres.url, (client) => client.query(`drop database ${name} with (force)`));
}

/** Each variant has a database of its own for each cell; sections with the same seed share it. */
async function cellOf(section: Section, name: VariantName, seconds: number): Promise<Cell> {
  const { store } = variants[name];
  const id = section.seed ? `held_${section.seed.finished}_${section.seed.waiting}` : section.id;
  const database = `${name}_${id}`.replaceAll("-", "_").toLowerCase();
  const url = new URL(postgres.url);
  url.pathname = `/${database}`;
  if (store !== "pglite" && !known.has(url.href)) {
    await withClient(postgres.url, (client) => client.query(`create database ${database}`));
  }
  const storePid = { postgres: postgres.pid, redis: redis?.pid, pglite: undefined, none: undefined }[store];
  return {
    workload: section.workload,
    variant: name,
    database: store === "pglite" ? join(folder, database) : url.href,
    redis: redis?.url ?? "",
    seconds,
    ...section.options,
    ...(storePid && { storePid }),
    ...(flags.profile && { profile: resolve(flags.profile) }),
    ...(section.seed && { seed: section.seed }),
  };
}

function said(section: Section, { failure, rate, p50Ms, storms }: Measured): string {
  if (failure) return `- ${failure.split("\n", 1)[0]}`;
  if (storms) return `p99 ${storms.map(({ p99Ms }) => `${Math.round(p99Ms)} ms`).join(", later ")}`;
  return section.unit === "ms" ? `${p50Ms?.toFixed(2)} ms` : `${Math.round(rate ?? 0)}/s`;
}

function machine(redisServer: RedisServer | undefined): Record<string, string> {
  const [cpu] = cpus();
  return {
    CPU: `${cpus().length} × ${cpu?.model.trim()}, ${arch()}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GB`,
    system: `${process.platform} ${release().split("-", 1)[0]}`,
    Node: process.version,
    Postgres: `${postgres.details}, fsync and synchronous_commit on`,
    Redis: redisServer?.details ?? "none",
  };
}

function footprints(plan: Plan): Results["footprints"] {
  const found: Partial<Record<VariantName, Footprint>> = {};
  for (const name of new Set(plan.sections.flatMap((one) => one.variants))) {
    const variant: Variant = variants[name];
    if (name === ours) found[name] = ownFootprint();
    else if (variant.package) found[name] = footprintOf(variant.package);
  }
  return found;
}
