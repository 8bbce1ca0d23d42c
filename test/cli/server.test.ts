import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { beforeEach, expect, it } from "vitest";
import { listen } from "../../src/cli/server.ts";

const CONNECTIONS = 1_000;
/** Only a server that drops connections is waited for so long. */
const PATIENCE_MS = 10_000;

/** Connects from another thread, and counts in shared memory who got through. */
const client = `
  const { workerData } = require("node:worker_threads");
  const { connect } = require("node:net");
  const connected = new Int32Array(workerData.shared);
  for (let i = 0; i < workerData.connections; i++) {
    connect(workerData.port, "127.0.0.1", () => {
      Atomics.add(connected, 0, 1);
      Atomics.notify(connected, 0);
    }).on("error", () => undefined);
  }
`;

beforeEach((context) => {
  const allowed = mostAllowed();
  if (allowed < CONNECTIONS) context.skip(`net.core.somaxconn is ${allowed}`);
});

it("a server that is busy lets a thousand connections wait until it accepts them", async () => {
  const server = createServer();
  const port = await listen(server, { port: 0, host: "127.0.0.1" });
  const shared = new SharedArrayBuffer(4);
  const connected = new Int32Array(shared);
  const worker = new Worker(client, { eval: true, workerData: { port, shared, connections: CONNECTIONS } });
  await once(worker, "online");
  // From here on this thread, which would accept them, does nothing else.
  const until = performance.now() + PATIENCE_MS;
  for (let n = 0; n < CONNECTIONS && performance.now() < until; n = Atomics.load(connected, 0))
    Atomics.wait(connected, 0, n, 100);
  expect(Atomics.load(connected, 0)).toBe(CONNECTIONS);
  await worker.terminate();
  server.closeAllConnections();
  server.close();
});

/** How many the system lets wait, whatever a server asks for. */
function mostAllowed(): number {
  try {
    return Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8"));
  } catch {
    return Infinity; // Not Linux: try.
  }
}
