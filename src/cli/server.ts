import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { checkSchema } from "../ledger/migrate.ts";
import type { LedgerStats } from "../ledger/lane.ts";
import { errorName } from "../observe.ts";
import type { Config } from "../config.ts";
import { nodeHandler } from "../receive/node.ts";
import { Failure } from "./fail.ts";
import type { Metrics } from "./metrics.ts";
import type { ServeSettings } from "./settings.ts";

type Handle = (req: IncomingMessage, res: ServerResponse) => unknown;

/**
 * Connections that may wait to be accepted; the system may allow fewer. Node asks for 511: of a thousand at once half
 * are dropped then, whosever they are, and come again a second later at the earliest.
 */
const backlog = 4096;

/** Scrapes and probes come from several places at once; the ledger is asked once for all of them. */
const freshForMs = 1_000;

/** The server of `onceward serve`: every source at /webhooks/<source>, and what operators ask for. */
export function createWebServer(
  { once, effects }: Config,
  metrics: Metrics,
  { host }: ServeSettings,
): Server {
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

  if (effects && isLoopback(host) && process.env["NODE_ENV"] !== "production") {
    routes.set("/storm", async (req, res) => {
      const tag = new URL(req.url ?? "/", "http://localhost").searchParams.get("tag") ?? "";
      if (!/^[a-z0-9]{4,40}$/.test(tag)) return send(res, 400, { error: { code: "tag_invalid" } });
      try {
        const { verbs } = once.engine.ledger;
        // What another task brought about is no event of its own.
        const events = (await verbs.list({ contains: tag, max: 1_000_000 })).filter(
          ({ cause }) => cause === null,
        );
        const { unfinished } = await verbs.stats();
        const moving = unfinished.reduce((sum, { due, running }) => sum + due + running, 0);
        send(res, 200, {
          recorded: events.length,
          unfinished: moving,
          effects: await effects(once.database, tag),
        });
      } catch (error) {
        send(res, 503, { error: { code: errorName(error) } });
      }
    });
  }

  return createServer((req, res) => {
    const handle = routes.get((req.url ?? "/").split("?", 1)[0] ?? "/");
    if (handle) void handle(req, res);
    else
      send(res, 404, { error: { code: "not_found", message: `There is: ${[...routes.keys()].join(", ")}` } });
  });
}

export async function listen(server: Server, { port, host }: ServeSettings): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(unusable(error, port, host)));
    server.listen({ port, host, backlog }, resolve);
  });
  const address = server.address();
  return typeof address === "object" && address ? address.port : port;
}

function unusable(error: NodeJS.ErrnoException, port: number, host: string): Error {
  if (error.code === "EADDRINUSE")
    return new Failure(`Port ${port} on ${host} is taken. Set PORT to another one.`);
  if (error.code === "EACCES")
    return new Failure(`Port ${port} may not be used by this user. Set PORT to one above 1023.`);
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND")
    return new Failure(`HOST ${host} is no address of this machine.`);
  return error;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
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
