/** A PgBouncer before a test server, as hosted Postgres puts one before its users. */
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { TestContext } from "vitest";
import { skipUnless, Unavailable } from "./postgres.ts";
import { keep } from "./postgres-keeper.ts";
import { freePort } from "./postgres-port.ts";
import { ended, hasEnded, startProcess } from "./postgres-process.ts";
import { serverFolder } from "./postgres-user.ts";

export interface PgBouncerOptions {
  /** The database behind it, as createDatabase or freshDatabase gave it. */
  readonly upstream: string;
  /** Default: transaction. */
  readonly poolMode?: "session" | "transaction" | "statement";
  /** Connections to the database; small, so that clients do share them. Default: 4. */
  readonly poolSize?: number;
}

export interface PgBouncer {
  /** The upstream's database, through the pooler. */
  readonly url: string;
  /** SIGKILL: every connection through it is cut. */
  kill(): Promise<void>;
  /** Starts it again on the same port, after `kill`. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Skips the test that asks, with the reason, where there is no PgBouncer: `beforeEach(needsPgBouncer)`. */
export function needsPgBouncer(context: TestContext): Promise<void> {
  return skipUnless(context, binary);
}

/** Rejects with Unavailable where there is none. */
export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncer> {
  const file = binary();
  const upstream = new URL(options.upstream);
  const folder = serverFolder("onceward-pgbouncer-");
  const keeper = keep(folder);
  const port = await freePort();
  // Written by us and read by the server's user, who owns the folder.
  const config = readable(
    join(folder, "pgbouncer.ini"),
    `[databases]
* = host=${upstream.hostname} port=${upstream.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${readable(join(folder, "users.txt"), `"${upstream.username}" ""\n`)}
pool_mode = ${options.poolMode ?? "transaction"}
default_pool_size = ${options.poolSize ?? 4}
max_client_conn = 300
ignore_startup_parameters = extra_float_digits
`,
  );
  const launch = () =>
    startProcess({
      file,
      args: [config],
      cwd: folder,
      ready: /process up/,
      onSpawn: keeper.watch,
    });
  try {
    let child = await launch();
    const url = new URL(upstream);
    url.port = String(port);
    const kill = async (): Promise<void> => {
      if (!hasEnded(child)) child.kill("SIGKILL"); // It has nothing to keep; politer signals mean other things in other versions.
      await ended(child);
    };
    return {
      url: url.href,
      kill,
      async restart() {
        child = await launch();
      },
      async stop() {
        await kill();
        await keeper.end();
      },
    };
  } catch (error) {
    await keeper.end();
    throw error;
  }
}

function binary(): string {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  const found = folders.map((folder) => join(folder, "pgbouncer")).find((file) => existsSync(file));
  if (!found) throw new Unavailable("no PgBouncer on this machine: install pgbouncer");
  return found;
}

function readable(file: string, text: string): string {
  writeFileSync(file, text);
  chmodSync(file, 0o644);
  return file;
}
