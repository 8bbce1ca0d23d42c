/** Real Postgres servers for tests: on a free port of the loopback, with a folder of their own. */
import { type ChildProcess, execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { binaries, Unavailable } from "./postgres-binaries.ts";
import { keep } from "./postgres-keeper.ts";
import { freePort } from "./postgres-port.ts";
import { ended, hasEnded, killFamily, startProcess } from "./postgres-process.ts";
import { serverFolder, serverUser } from "./postgres-user.ts";

export interface PostgresOptions {
  /** A major version, or the oldest or newest that this machine has. Default: the newest. */
  readonly version?: "oldest" | "newest" | number;
  /** Server settings over the tests' own, say `{ fsync: "on" }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Where its folder is made. Default: in memory, where there is plenty. */
  readonly within?: string;
  /** Size of a WAL file in MB. Default: Postgres' own 16. */
  readonly walFileMb?: number;
  /** Starts as a standby of this server, from a copy of its data, and follows it until it is promoted. */
  readonly standbyOf?: PostgresServer;
}

export interface PostgresServer {
  /** The database `postgres`, as its superuser. */
  readonly url: string;
  readonly host: "127.0.0.1";
  readonly port: number;
  /** The major version. */
  readonly version: number;
  readonly dataDir: string;
  /** The postmaster's process id; another one after a restart. */
  readonly pid: number;
  /** False once its process has ended, for whatever reason. */
  readonly alive: boolean;
  /** Makes an empty database and returns its URL. */
  createDatabase(): Promise<string>;
  /** SIGKILL for the postmaster and every backend, as when the machine fails. */
  kill(): Promise<void>;
  /** Starts it again on the same port and data: after `kill` with crash recovery, else after a clean shutdown. */
  restart(): Promise<void>;
  /** Makes a standby the primary; resolves when it takes writes. */
  promote(): Promise<void>;
  /** Ends it and removes its data. */
  stop(): Promise<void>;
}

const testSettings: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  // Test files run beside each other on one server, each with pools of its own.
  max_connections: "300",
  shared_buffers: "64MB",
  // What tests lose in a power cut does not matter. Tests of durability turn it on.
  fsync: "off",
};

/** Two runs may pick the same free port, and a killed server's memory is freed a moment after its end. */
const START_TRIES = 10;

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const { version, bin } = binaries(options.version ?? "newest");
  const folder = serverFolder("onceward-postgres-", options.within);
  const dataDir = join(folder, "data");
  const keeper = keep(folder);
  const settings = { ...testSettings, ...options.settings };
  const launch = (onPort: number) =>
    startProcess({
      file: join(bin, "postgres"),
      args: ["-D", dataDir, ...flags({ ...settings, port: String(onPort) })],
      cwd: folder,
      ready: /database system is ready to accept (read-only )?connections/,
      onSpawn: keeper.watch,
    });

  let port = 0;
  let postmaster: ChildProcess;
  try {
    await (options.standbyOf
      ? copyData({ bin, folder, dataDir, primary: options.standbyOf })
      : initialise({ bin, folder, dataDir, walFileMb: options.walFileMb }));
    postmaster = await retry(async () => launch((port = await freePort())), /Address already in use/);
  } catch (error) {
    await keeper.end();
    throw error;
  }
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;

  return {
    url,
    host: "127.0.0.1",
    port,
    version,
    dataDir,
    get pid() {
      return postmaster.pid!;
    },
    get alive() {
      return !hasEnded(postmaster);
    },
    createDatabase: () => createDatabase(url),
    promote: () => asAdmin(url, (client) => client.query("select pg_promote(true, 60)")),
    kill: () => killFamily(postmaster),
    async restart() {
      if (!hasEnded(postmaster)) {
        postmaster.kill("SIGINT"); // "fast": ends the sessions, writes a checkpoint.
        await ended(postmaster);
      }
      postmaster = await retry(() => launch(port), /still in use|Address already in use/);
    },
    async stop() {
      if (!hasEnded(postmaster)) {
        postmaster.kill("SIGQUIT"); // "immediate": the data goes anyway.
        await ended(postmaster);
      }
      await keeper.end();
    },
  };
}

/** Makes an empty database beside the one of `adminUrl` and returns its URL. */
export async function createDatabase(adminUrl: string): Promise<string> {
  const name = `test_${randomBytes(8).toString("hex")}`;
  await asAdmin(adminUrl, (client) => client.query(`create database ${name}`));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** How long sessions have to leave by themselves, in steps of 20 ms. */
const LEAVING_STEPS = 250;

/**
 * Drops a database that createDatabase made, and ends whoever is still connected to it. Who is just leaving
 * may leave: a pool that was ended says so before its sessions are gone, and a session that is ended from
 * here meanwhile throws in the middle of nowhere.
 */
export async function dropDatabase(adminUrl: string, url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  await asAdmin(adminUrl, async (client) => {
    for (let step = 0; step < LEAVING_STEPS; step++) {
      const { rows } = await client.query("select from pg_stat_activity where datname = $1", [name]);
      if (rows.length === 0) break;
      await wait(20);
    }
    await client.query(`drop database if exists ${name} with (force)`);
  });
}

async function asAdmin(adminUrl: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

interface NewData {
  readonly bin: string;
  readonly folder: string;
  readonly dataDir: string;
}

async function initialise({
  bin,
  folder,
  dataDir,
  walFileMb,
}: NewData & { walFileMb: number | undefined }): Promise<void> {
  const args = [
    "-D",
    dataDir,
    "-U",
    "postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
    ...(walFileMb === undefined ? [] : [`--wal-segsize=${walFileMb}`]),
  ];
  await run(join(bin, "initdb"), args, folder);
}

/** A copy of a running server's data that follows it; it waits for nobody once it is promoted. */
async function copyData({
  bin,
  folder,
  dataDir,
  primary,
}: NewData & { primary: PostgresServer }): Promise<void> {
  const program = join(bin, "pg_basebackup");
  if (!existsSync(program))
    throw new Unavailable("no pg_basebackup beside this Postgres: install postgresql-15");
  const args = ["-D", dataDir, "-d", primary.url, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"];
  await run(program, args, folder);
  // The last word of a setting counts. The primary's own, who may wait for standbys, came with the copy.
  appendFileSync(join(dataDir, "postgresql.auto.conf"), "synchronous_standby_names = ''\n");
}

/** Rejects with what the program said. */
async function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  await promisify(execFile)(program, [...args], {
    cwd,
    env: { PATH: process.env.PATH, LC_ALL: "C" },
    ...serverUser(),
  });
}

function flags(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

async function retry<T>(work: () => Promise<T>, when: RegExp): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === START_TRIES || !when.test(String(error))) throw error;
      await wait(100);
    }
  }
}
