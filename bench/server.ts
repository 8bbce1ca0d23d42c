/** The HTTP server that every variant stands behind unless it brings its own: verify, parse, hand over. */
import { timingSafeEqual } from "node:crypto";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { digest, type StripeEvent } from "./event.ts";

/**
 * Connections that may wait to be accepted. Node asks for 511; of a thousand at once the system then drops half, and
 * they come again a second later: a figure about TCP, not about whoever is measured.
 */
const BACKLOG = 4096;

export type Receive = (event: StripeEvent, bytes: Buffer) => Promise<unknown> | undefined;

/** Reads, checks the HMAC, parses, and answers 200 once `receive` is done. */
export function plainListener(receive: Receive): RequestListener {
  return (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      if (!genuine(request, bytes)) return answer(response, 400);
      const received = receive(JSON.parse(bytes.toString()) as StripeEvent, bytes);
      if (!received) return answer(response, 200);
      received.then(
        () => answer(response, 200),
        () => answer(response, 500),
      );
    });
  };
}

export async function listen(listener: RequestListener): Promise<{ server: Server; port: number }> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1", BACKLOG);
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port };
}

function genuine(request: IncomingMessage, bytes: Buffer): boolean {
  const header = String(request.headers["stripe-signature"]);
  const [time, v1] = header.split(",") as [string, string];
  const given = Buffer.from(v1.slice(3), "hex");
  const expected = digest(time.slice(2), bytes);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function answer(response: ServerResponse, status: number): void {
  const text = '{"outcome":"accepted"}';
  response.writeHead(status, { "content-type": "application/json", "content-length": text.length }).end(text);
}
