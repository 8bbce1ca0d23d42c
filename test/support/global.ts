/**
 * Runs once around all tests. One server of the newest Postgres here and one of the oldest are shared by
 * every test file; each starts when the first test asks for it, which test files do through a small
 * HTTP server on the loopback, since they run in processes of their own.
 */
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { servers, Unavailable } from "./postgres-binaries.ts";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where to ask for the admin URL of a shared server: `<this>/newest`, `<this>/oldest`. */
    sharedPostgres: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { status } = spawnSync(process.execPath, ["scripts/compile-sql.mjs"], {
    cwd: project.config.root,
    stdio: "inherit",
  });
  if (status !== 0) throw new Error("scripts/compile-sql.mjs failed");

  const started = new Map<string, Promise<PostgresServer>>();
  const desk = createServer(async (request, response) => {
    const which = request.url === "/oldest" ? "oldest" : "newest";
    // Asked seldom: a connection kept for the next question may be closed just as that is sent.
    response.setHeader("connection", "close");
    if (!started.has(which)) started.set(which, start(which));
    try {
      response.end((await started.get(which)!).url);
    } catch (error) {
      response.writeHead(error instanceof Unavailable ? 501 : 500).end((error as Error).message);
    }
  });
  await new Promise<void>((ready) => desk.listen(0, "127.0.0.1", ready));
  project.provide("sharedPostgres", `http://127.0.0.1:${(desk.address() as AddressInfo).port}`);

  return async () => {
    desk.closeAllConnections();
    desk.close();
    for (const server of await Promise.allSettled(started.values())) {
      if (server.status === "fulfilled") await server.value.stop();
    }
  };
}

async function start(which: "newest" | "oldest"): Promise<PostgresServer> {
  const [only, ...others] = servers();
  if (which === "oldest" && only && others.length === 0) {
    throw new Unavailable(
      `only Postgres ${only.version} on this machine: install an older one, say postgresql-15`,
    );
  }
  return startPostgres({ version: which });
}
