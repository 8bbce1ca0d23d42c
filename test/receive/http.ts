/** A server of ours and a sender, over real HTTP on the loopback. */
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Receiver } from "../../src/receive/delivery.ts";
import { nodeHandler } from "../../src/receive/node.ts";
import { signature, type StripeEvent } from "../handler/support.ts";

export interface Sent {
  /** 0 where no answer came: the connection was refused or cut. */
  readonly status: number;
  readonly outcome: string;
}

export async function listen(receiver: Receiver): Promise<{ server: Server; port: number }> {
  const server = createServer(nodeHandler(receiver));
  // As many as a storm opens at once: what Node's own 511 cannot hold would come again a second later.
  const where = { port: 0, host: "127.0.0.1", backlog: 4096 };
  await new Promise<void>((resolve) => server.listen(where, resolve));
  return { server, port: (server.address() as AddressInfo).port };
}

/** Sends events to a port; `connections` bounds how many requests are under way at once. */
export function sender(connections: number): {
  send(port: number, event: StripeEvent, headers?: Record<string, string>): Promise<Sent>;
  close(): void;
} {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  return {
    send: (port, event, more = {}) =>
      new Promise((resolve) => {
        const body = Buffer.from(JSON.stringify(event));
        const headers = { "stripe-signature": signature(body), "content-length": body.length, ...more };
        const cut = (): void => resolve({ status: 0, outcome: "cut off" });
        request({ host: "127.0.0.1", port, method: "POST", agent, headers }, (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => (text += chunk)).on("error", cut);
          response.on("end", () => {
            const said = JSON.parse(text) as { outcome?: string; error?: { code: string } };
            resolve({ status: response.statusCode ?? 0, outcome: said.outcome ?? said.error?.code ?? "" });
          });
        })
          .on("error", cut)
          .end(body);
      }),
    close: () => agent.destroy(),
  };
}
