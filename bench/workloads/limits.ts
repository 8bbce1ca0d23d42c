/** What Postgres itself can do with the same payload: the bound of everything that stores it. */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import type { Cell, Measured } from "../cell.ts";
import { costMeter, type Meter } from "../costs.ts";
import { withClient } from "../database.ts";
import { body, ids } from "../event.ts";
import type { Variant } from "../variant.ts";

/** Rows a statement where many are inserted at once. */
const BATCH = 100;
const COPIED = 20_000;

const scripts = {
  single:
    "\\set n random(1, 9000000000000000000)\ninsert into bench_limit (id, body) values ('evt_' || :n, :body);\n",
  batched: `\\set n random(1, 9000000000000000000)\ninsert into bench_limit (id, body) select 'evt_' || :n || '_' || i, :body from generate_series(1, ${BATCH}) i;\n`,
};

export const hasPgbench = (): boolean => spawnSync("pgbench", ["--version"]).status === 0;

export async function limit(variant: Variant, cell: Cell): Promise<Measured> {
  await withClient(cell.database, (client) =>
    client.query("create table if not exists bench_limit (id text primary key, body text not null)"),
  );
  const meter = await costMeter({ url: cell.database, ...(cell.storePid && { pid: cell.storePid }) });
  const folder = mkdtempSync(join(tmpdir(), "onceward-bench-"));
  chmodSync(folder, 0o755); // COPY reads it as the server's user.
  try {
    if (variant.title.includes("COPY")) return await copy(cell, folder, meter);
    return await pgbench(cell, folder, meter, variant.title.includes(String(BATCH)) ? "batched" : "single");
  } finally {
    await meter.close();
    rmSync(folder, { recursive: true });
  }
}

async function pgbench(
  cell: Cell,
  folder: string,
  meter: Meter,
  which: "single" | "batched",
): Promise<Measured> {
  const script = join(folder, "script.sql");
  writeFileSync(script, scripts[which]);
  const clients = which === "single" ? 64 : 2;
  const args = [
    "-n",
    "-M",
    "prepared",
    "-c",
    `${clients}`,
    "-j",
    "2",
    "-T",
    `${Math.ceil(cell.seconds)}`,
    "-f",
    script,
    "-D",
    `body=${body("evt")}`,
    cell.database,
  ];
  const child = spawn("pgbench", args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(child, "close");
  const rows = which === "single" ? 1 : BATCH;
  const transactions = Number(/transactions actually processed: (\d+)/.exec(text)?.[1]);
  const rate = Number(/tps = ([\d.]+)/.exec(text)?.[1]) * rows;
  const costs = await meter.lap(transactions * rows);
  return { rate, costs: { ...costs, statements: 1 / rows, nodeCpuUs: 0 } };
}

async function copy(cell: Cell, folder: string, meter: Meter): Promise<Measured> {
  const nextId = ids();
  const file = join(folder, "rows.copy");
  const escaped = (id: string) => body(id).replaceAll("\\", "\\\\");
  const rows = Array.from({ length: COPIED }, nextId);
  writeFileSync(file, rows.map((id) => `${id}\t${escaped(id)}\n`).join(""));
  return withClient(cell.database, async (client) => {
    await meter.lap(1); // Making the file was not Postgres' work.
    const began = performance.now();
    await client.query(`copy bench_limit from '${file}'`);
    const seconds = (performance.now() - began) / 1000;
    return { rate: COPIED / seconds, costs: await meter.lap(COPIED) };
  });
}
