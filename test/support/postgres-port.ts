import { createServer } from "node:net";

/**
 * A free port below those that systems hand out to outgoing connections (32768 on Linux, 49152 on macOS):
 * so that nothing takes it while a server that is to come back on it is down.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const probe = createServer();
    probe.once("error", () => done(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => done(true)));
  });
}
