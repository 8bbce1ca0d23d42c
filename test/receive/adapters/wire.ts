/** HTTP as bytes on a socket: for requests that no client library would send. */
import { once } from "node:events";
import { request, type Agent, type OutgoingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Whether the connection had carried a request before. */
  readonly reused: boolean;
}

export interface Sending {
  method?: string;
  path?: string;
  headers?: OutgoingHttpHeaders;
  body?: Uint8Array;
  agent?: Agent;
}

/** An ordinary request, body with its Content-Length. */
export function send(port: number, sending: Sending = {}): Promise<Reply> {
  const { method = "POST", path = "/hook", headers = {}, body = new Uint8Array(0), agent = false } = sending;
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: "127.0.0.1", port, method, path, agent });
    for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value!);
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({
          status: response.statusCode!,
          headers: response.headers as Record<string, string>,
          body: Buffer.concat(chunks).toString("utf8"),
          reused: outgoing.reusedSocket,
        }),
      );
    });
    outgoing.end(body);
  });
}

/** A connection on which the test writes whatever it likes. */
export async function open(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay(true);
  await once(socket, "connect");
  return socket;
}

export function head(...lines: string[]): string {
  return [...lines, "Host: localhost", "", ""].join("\r\n");
}

/** Everything the server says until it closes the connection. */
export async function untilClosed(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  // A close with bytes still on their way is a reset: the answer came before it, and that is what counts.
  socket.on("error", () => {});
  await new Promise<void>((resolve) => socket.on("close", () => resolve()));
  return Buffer.concat(chunks).toString("latin1");
}

/** Sends one request as raw pieces, each a write of its own, on a connection that ends with the answer. */
export async function sendPieces(port: number, pieces: readonly (string | Uint8Array)[]): Promise<string> {
  const socket = await open(port);
  const said = untilClosed(socket);
  for (const piece of pieces) {
    await new Promise<void>((written) => socket.write(piece, () => written()));
  }
  return said;
}

/** A body in chunked transfer encoding. */
export function chunked(body: Uint8Array, size: number): (string | Uint8Array)[] {
  const pieces: (string | Uint8Array)[] = [];
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size);
    pieces.push(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n")]));
  }
  return [...pieces, "0\r\n\r\n"];
}

export function statusOf(said: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1] ?? 0);
}
