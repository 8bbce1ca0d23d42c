/**
 * What an event costs, beside time: statements as the drivers send them, and from the write-ahead log itself
 * (pg_walinspect) its bytes, commits and index writes; CPU of this process and of the store from /proc.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import pg from "pg";
import type { Variant } from "./variant.ts";

export interface Costs {
  /** Statements to Postgres or commands to Redis. */
  readonly statements: number;
  readonly commits: number;
  /** Without full-page images, which depend on when the last checkpoint was. */
  readonly walBytes: number;
  readonly indexWrites: number;
  readonly nodeCpuUs: number;
  readonly storeCpuUs: number;
}

/** Linux counts CPU in ticks of 10 ms. */
const TICK_US = 10_000;

let statements = 0;

/** Counts what every copy of `pg` (ours and the library's own) sends from now on, and with Redis ioredis too. */
export function countStatements(store: Variant["store"]): void {
  const root = createRequire(new URL("../package.json", import.meta.url));
  const here = createRequire(import.meta.url);
  const drivers = new Set([here("pg"), root("pg")] as (typeof pg)[]);
  for (const driver of drivers) count(driver.Client.prototype, "query");
  if (store !== "redis") return;
  count((here("ioredis") as { Redis: { prototype: object } }).Redis.prototype, "sendCommand");
}

function count(target: object, method: string): void {
  const methods = target as Record<string, (...args: unknown[]) => unknown>;
  const original = methods[method]!;
  methods[method] = function (this: unknown, ...args: unknown[]) {
    statements++;
    return original.apply(this, args);
  };
}

export interface Meter {
  /** What happened since the last call, for each of so many events. */
  lap(events: number): Promise<Costs>;
  close(): Promise<void>;
}

/** `pid` is the postmaster's, or Redis'; undefined where the store is inside this process. */
export async function costMeter({ url, pid }: { url?: string; pid?: number }): Promise<Meter> {
  const client = url ? new pg.Client({ connectionString: url }) : undefined;
  await client?.connect();
  let last = await read();
  return {
    async lap(events) {
      const now = await read();
      const wal = await walBetween(last.lsn, now.lsn);
      const spent = {
        statements: (now.statements - last.statements) / events,
        nodeCpuUs: (now.nodeCpuUs - last.nodeCpuUs) / events,
        storeCpuUs: (now.storeCpuUs - last.storeCpuUs) / events,
        commits: wal.commits / events,
        walBytes: wal.walBytes / events,
        indexWrites: wal.indexWrites / events,
      };
      last = await read();
      return spent;
    },
    close: async () => client?.end(),
  };

  async function read() {
    const lsn = client
      ? ((await client.query("select pg_current_wal_flush_lsn() as lsn")).rows[0].lsn as string)
      : "";
    const { user, system } = process.cpuUsage();
    if (client) statements--; // that one
    return { statements, lsn, nodeCpuUs: user + system, storeCpuUs: pid ? cpuUs(pid) : 0 };
  }

  async function walBetween(from: string, to: string) {
    if (!client || from === to) return { commits: 0, walBytes: 0, indexWrites: 0 };
    const { rows } = await client.query(
      `select coalesce(sum(count) filter (where name = 'Transaction/COMMIT'), 0)::float8 as commits,
        coalesce(sum(count) filter (where name ~ '^(Btree|Gin|BRIN|Hash)/(INSERT|UPDATE|SAMEPAGE)'), 0)::float8 as "indexWrites",
        sum(record_size)::float8 as "walBytes"
      from (select "resource_manager/record_type" as name, * from pg_get_wal_stats($1, $2, true)) s`,
      [from, to],
    );
    return rows[0] as { commits: number; walBytes: number; indexWrites: number };
  }
}

/** CPU of a process, of its children, and of those that have ended. */
function cpuUs(pid: number): number {
  const family = stat(pid);
  if (!family) return 0;
  let ticks = family.own + family.ended;
  for (const name of readdirSync("/proc")) {
    const one = /^\d+$/.test(name) ? stat(Number(name)) : undefined;
    if (one?.parent === pid) ticks += one.own;
  }
  return ticks * TICK_US;
}

function stat(pid: number): { parent: number; own: number; ended: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // "pid (name) state ppid …": the name may hold anything, so read from its last bracket.
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [utime, stime, cutime, cstime] = fields.slice(11, 15) as [number, number, number, number];
    return { parent: fields[1]!, own: utime + stime, ended: cutime + cstime };
  } catch {
    return undefined; // It ended while we looked, or this is not Linux.
  }
}
