/** The Postgres and the Redis of a run: on free ports of the loopback, durable, gone afterwards. */
import { execFile, spawn, spawnSync } from "node:child_process";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import type pg from "pg";
import { servers } from "../test/support/postgres-binaries.ts";
import { keep } from "../test/support/postgres-keeper.ts";
import { freePort } from "../test/support/postgres-port.ts";
import { ended } from "../test/support/postgres-process.ts";
import { startPostgres, type PostgresServer } from "../test/support/postgres-server.ts";
import { serverFolder, serverUser } from "../test/support/postgres-user.ts";
import { withClient } from "./database.ts";
import { runIn, steadySettings } from "./steady.ts";

/** Durable as Postgres is by default, on a disk; room enough that no checkpoint falls into a measurement. */
export const postgresSettings = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  ...steadySettings,
  checkpoint_timeout: "1h",
  max_connections: "300",
};

/** The newest server here that has lz4, as hosted ones have: it halves the cost of a payload, for all variants alike. */
export async function startStore(): Promise<PostgresServer & { readonly details: string }> {
  const versions = servers().map((one) => one.version);
  if (versions.length === 0) throw new Error("no Postgres on this machine");
  for (const version of versions.toReversed()) {
    const server = await startPostgres({ version, settings: postgresSettings, within: tmpdir() });
    const { lz4, details } = await withClient(server.url, compressWell);
    if (lz4 || version === versions[0]) {
      const template = new URL(server.url);
      template.pathname = "/template1";
      await withClient(template.href, (client) => client.query("create extension pg_walinspect"));
      await runIn(server.url);
      return Object.assign(server, { details: `${details}, ${lz4 ? "lz4" : "pglz"}` });
    }
    await server.stop();
  }
  throw new Error("unreachable");
}

async function compressWell(client: pg.Client): Promise<{ lz4: boolean; details: string }> {
  const { rows } = await client.query<{ enumvals: string[]; version: string }>(
    "select enumvals, version() from pg_settings where name = 'default_toast_compression'",
  );
  const { enumvals, version } = rows[0]!;
  const lz4 = enumvals.includes("lz4");
  if (lz4) await client.query("alter system set default_toast_compression = 'lz4'");
  await client.query("select pg_reload_conf()");
  return { lz4, details: version.split(" on ", 1)[0]! };
}

export interface RedisServer {
  readonly url: string;
  readonly pid: number;
  readonly details: string;
  /** Forgets all that it holds. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** Undefined where there is no Redis. Every write is on the disk before it is answered. */
export async function startRedis(): Promise<RedisServer | undefined> {
  const found = /v=(\S+)/.exec(spawnSync("redis-server", ["--version"], { encoding: "utf8" }).stdout ?? "");
  if (!found) return undefined;
  const folder = serverFolder("onceward-redis-", tmpdir());
  const keeper = keep(folder);
  const port = await freePort();
  const settings = {
    port,
    bind: "127.0.0.1",
    dir: folder,
    appendonly: "yes",
    appendfsync: "always",
    save: "",
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn("redis-server", args, { stdio: "ignore", cwd: folder, ...serverUser() });
  keeper.watch(child);
  while (!(await accepts(port))) await wait(50);
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid!,
    details: `Redis ${found[1]}, appendonly, appendfsync always`,
    async flush() {
      await promisify(execFile)("redis-cli", ["-p", String(port), "flushall"]);
    },
    async stop() {
      child.kill("SIGKILL");
      await ended(child);
      await keeper.end();
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
