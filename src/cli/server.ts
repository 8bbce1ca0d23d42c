import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { checkSchema } from "../ledger/migrate.ts";
import type { LedgerStats } from "../ledger/verbs.ts";
import { errorName } from "../observe.ts";
import type { Once } from "../once.ts";
import { nodeHandler } from "../receive/node.ts";
import { Failure } from "./fail.ts";
import type { Metrics } from "./metrics.ts";
import type { ServeSettings } from "./settings.ts";

type Handle = (req: IncomingMessage, res: ServerResponse) => unknown;

/** Scrapes and probes come from several places at once; the ledger is asked once for all of them. */
const freshForMs = 1_000;

/** The server of `onceward serve`: every source at /webhooks/<source>, and what operators ask for. */
export function createWebServer(once: Once<never>, metrics: Metrics): Server {
  const routes = new Map<string, Handle>();
  for (const [name, source] of once.sources) routes.set(`/webhooks/${name}`, nodeHandler(source));

  const ready = cached(async () => {
    await checkSchema(once.database, { schema: once.engine.ledger.schema });
  });
  const stats = cached((): Promise<LedgerStats> => once.engine.ledger.verbs.stats());

  routes.set("/healthz", (_, res) => send(res, 200, { status: "ok" }));
  routes.set("/readyz", async (_, res) => {
    try {
      await ready();
      send(res, 200, { status: "ready" });
    } catch (error) {
      send(res, 503, { status: "not ready", code: errorName(error) });
    }
  });
  routes.set("/metrics", async (_, res) => {
    try {
      const text = metrics.text(await stats());
      res.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }).end(text);
    } catch (error) {
      send(res, 503, { status: "no figures", code: errorName(error) });
    }
  });

  return createServer((req, res) => {
    const handle = routes.get((req.url ?? "/").split("?", 1)[0] ?? "/");
    if (handle) void handle(req, res);
    else send(res, 404, { error: { code: "not_found", message: `There is: ${[...routes.keys()].join(", ")}` } });
  });
}

export async function listen(server: Server, { port, host }: ServeSettings): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(unusable(error, port, host)));
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === "object" && address ? address.port : port;
}

function unusable(error: NodeJS.ErrnoException, port: number, host: string): Error {
  if (error.code === "EADDRINUSE") return new Failure(`Port ${port} on ${host} is taken. Set PORT to another one.`);
  if (error.code === "EACCES") return new Failure(`Port ${port} may not be used by this user. Set PORT to one above 1023.`);
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND") return new Failure(`HOST ${host} is no address of this machine.`);
  return error;
}

function cached<T>(make: () => Promise<T>): () => Promise<T> {
  let made: { at: number; value: Promise<T> } | undefined;
  return () => {
    const now = performance.now();
    if (!made || now - made.at > freshForMs) made = { at: now, value: make() };
    return made.value;
  };
}

function send(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
}
