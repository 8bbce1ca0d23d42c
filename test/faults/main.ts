/** `npm run faults`: every fault, so many times, under load. Ends with 1 if anything was lost or doubled. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import pg from "pg";
import { Progress } from "../../src/cli/progress.ts";
import { Unavailable } from "../support/postgres-binaries.ts";
import { type PostgresServer, startPostgres } from "../support/postgres-server.ts";
import { sizes } from "./fault.ts";
import { faults } from "./faults/index.ts";
import { Random } from "./random.ts";
import { lineOf, passed, tableOf } from "./report.ts";
import { type Outcome, tryFault } from "./try.ts";

const usage = `npm run faults -- [--times N] [--only NAME,NAME] [--seed S] [--short] [--naive] [--postgres oldest|newest] [--out FILE]
faults: ${faults.map(({ name }) => name).join(", ")}`;

const { values } = parseArgs({
  options: {
    times: { type: "string", default: "10" },
    only: { type: "string" },
    seed: { type: "string" },
    short: { type: "boolean", default: false },
    naive: { type: "boolean", default: false },
    postgres: { type: "string", default: "oldest" },
    out: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

/** Where the table stands in the file of `--out`; what is around it is kept. */
const marks = ["<!-- figures -->", "<!-- end of figures -->"] as const;

if (values.help) console.log(usage);
else await main();

async function main(): Promise<void> {
  // Tells the application to write its effects as one does by hand: to see that faults are found.
  if (values.naive) process.env["FAULTS_NAIVE"] = "1";
  const times = count("times", values.times);
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : count("seed", values.seed);
  const names = values.only?.split(",") ?? faults.map(({ name }) => name);
  const unknown = names.filter((name) => !faults.some((fault) => fault.name === name));
  if (unknown.length > 0) fail(`There is no fault ${unknown.join(", ")}.`);
  const version = values.postgres === "newest" ? "newest" : "oldest";
  const size = values.short ? sizes.short : sizes.full;
  const chosen = faults.filter(({ name }) => names.includes(name));

  const postgres = await startPostgres({ version, settings: { fsync: size.fsync ? "on" : "off" } });
  stopWith(postgres);
  const progress = new Progress(chosen.length * times);
  const outcomes: Outcome[] = [];
  const skipped: string[] = [];
  let broken = false;
  console.log(`seed ${seed}, ${await versions(postgres)}`);
  try {
    for (const [i, fault] of chosen.entries()) {
      const random = new Random(seed * 31 + faults.indexOf(fault));
      const onProgress = (strikes: number, note: string): void =>
        progress.show(i * times + strikes, `${fault.name}: ${note}`);
      try {
        const outcome = await tryFault(fault, { size, random, postgres, times, onProgress });
        outcomes.push(outcome);
        progress.end();
        console.log(lineOf(outcome));
      } catch (error) {
        progress.end();
        if (error instanceof Unavailable) skipped.push(`${fault.name} was not run: ${error.message}`);
        else {
          broken = true;
          console.error(`${fault.name}: ${error instanceof Error ? error.stack : String(error)}`);
        }
      }
    }
    const text = [tableOf(outcomes), ...skipped].join("\n\n");
    console.log(`\n${text}`);
    if (values.out) write(values.out, `${await about(postgres, seed)}\n\n${text}`);
  } finally {
    await postgres.stop();
  }
  if (broken || !outcomes.every(passed)) process.exitCode = 1;
}

async function about(postgres: PostgresServer, seed: number): Promise<string> {
  const [cpu] = cpus();
  return `${new Date().toISOString().slice(0, 10)}, ${await versions(postgres)}, ${cpus().length} × ${cpu?.model.trim()}, seed ${seed}:`;
}

async function versions(postgres: PostgresServer): Promise<string> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  const { rows } = await client.query<{ server_version: string }>("show server_version");
  await client.end();
  return `Postgres ${rows[0]?.server_version.split(" ", 1)[0]}, Node ${process.versions.node}`;
}

function write(file: string, text: string): void {
  const [begin, end] = marks;
  const old = existsSync(file) ? readFileSync(file, "utf8") : `${begin}\n${end}\n`;
  const from = old.indexOf(begin);
  const to = old.indexOf(end);
  if (from < 0 || to < from) fail(`${file} has no lines ${begin} and ${end} for the figures.`);
  writeFileSync(file, `${old.slice(0, from + begin.length)}\n\n${text}\n\n${old.slice(to)}`);
}

function count(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) fail(`--${name} is a whole number, not "${text}".`);
  return Number(text);
}

/** Ctrl-C and the like. The processes notice that we are gone, and so do those who keep servers and disks. */
function stopWith(postgres: PostgresServer): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => void postgres.stop().finally(() => process.exit(1)));
  }
}

function fail(message: string): never {
  console.error(`${message}\n${usage}`);
  process.exit(2);
}
