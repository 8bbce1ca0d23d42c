import type { Server } from "node:http";
import { withAddress } from "./address.ts";
import { loadConfig } from "./config.ts";
import { Log } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { createWebServer, listen } from "./server.ts";
import { developmentSecret, serveSettings } from "./settings.ts";
import { scheduleUpkeep } from "./upkeep.ts";

/** How long open requests may take once the server stops. */
const drainMs = 10_000;

/** `onceward serve`: migrates, mounts every source, runs workers, until it is told to stop. */
export async function serve(
  target: string | undefined,
  options: { port?: string; host?: string },
): Promise<void> {
  const settings = serveSettings(options);
  const madeSecret = developmentSecret();
  const { config } = await loadConfig(target);
  const { once } = config;
  const log = new Log();
  const metrics = new Metrics();
  once.observe(log);
  once.observe(metrics);
  scheduleUpkeep(config, log);
  try {
    await once.engine.ready();
    await config.setup?.(once.database);
    await once.start();
    await once.warmUp();
    const server = createWebServer(config, metrics, settings);
    const port = await listen(server, settings);
    stopOnSignals(async () => {
      log.say("stopping");
      await closeServer(server);
      await once.stop();
      log.say("stopped");
    });
    const base = `http://${settings.host.includes(":") ? `[${settings.host}]` : settings.host}:${port}`;
    for (const name of once.sources.keys()) log.say("listening", { url: `${base}/webhooks/${name}` });
    if (madeSecret)
      log.say("signing secret for development, in .onceward/stripe-webhook-secret", { secret: madeSecret });
    log.say("ready", { database: once.database.name, health: `${base}/healthz` });
  } catch (error) {
    await once.stop({ graceMs: 0 }).catch(() => undefined);
    throw withAddress(error);
  }
}

/** The first signal stops gracefully, the second at once. */
function stopOnSignals(stop: () => Promise<void>): void {
  let stopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(130);
      stopping = true;
      stop().then(
        () => process.exit(0),
        () => process.exit(1),
      );
    });
  }
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const late = setTimeout(() => server.closeAllConnections(), drainMs);
  await closed;
  clearTimeout(late);
}
