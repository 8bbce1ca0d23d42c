import type { IncomingMessage, ServerResponse } from "node:http";
import { answerTo, bodyParsed, deliveryOf, noBytes, tooLarge } from "./body.ts";
import type { Answer, Receiver } from "./delivery.ts";

/**
 * Mounts a receiver on node:http (and whatever hands on its request and response):
 *
 * ```ts
 * createServer(nodeHandler(billing)).listen(3000);
 * ```
 *
 * In a Next `pages/api` route, export `config = { api: { bodyParser: false } }` beside it.
 */
export function nodeHandler(receiver: Receiver): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => receiveStream(receiver, req, parsedFirst, (answer) => writeAnswer(req, res, answer));
}

const parsedFirst = bodyParsed("hand on the request before anything reads it");

/**
 * Reads the whole body, hands it to the receiver and its answer to `write`. An upload that is cut off never
 * ends: nothing is received and nothing written.
 */
export function receiveStream(
  receiver: Receiver,
  req: IncomingMessage,
  consumed: Answer,
  write: (answer: Answer) => void,
): void {
  const { maxBytes } = receiver;
  // With an encoding set, chunks are decoded text and their bytes are gone.
  if (req.readableDidRead || req.readableEncoding) return write(consumed);
  if (Number(req.headers["content-length"]) > maxBytes) return write(tooLarge);

  const chunks: Uint8Array[] = [];
  let size = 0;
  const onData = (chunk: Uint8Array): void => {
    size += chunk.length;
    if (size <= maxBytes) {
      chunks.push(chunk);
      return;
    }
    req.off("data", onData).off("end", onEnd).pause();
    write(tooLarge);
  };
  const onEnd = (): void => {
    void answerTo(receiver, deliveryOf(req.method ?? "", req.headers, joined(chunks, size))).then(write);
  };
  // A cut connection is an "error" of the request; without a listener it would end the process.
  req.on("error", ignore).on("data", onData).on("end", onEnd);
}

function ignore(): void {}

/** Most bodies come in one chunk, which is passed on as it is. */
function joined(chunks: Uint8Array[], size: number): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  return chunks.length === 0 ? noBytes : Buffer.concat(chunks, size);
}

export function writeAnswer(req: IncomingMessage, res: ServerResponse, answer: Answer): void {
  if (res.headersSent || res.destroyed) return;
  // What was not read still stands in the way of the next request on this connection.
  if (!req.complete) res.setHeader("connection", "close");
  res.writeHead(answer.status, { ...answer.headers, "content-length": Buffer.byteLength(answer.body) });
  res.end(answer.body);
}
