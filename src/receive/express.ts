import type { IncomingMessage, ServerResponse } from "node:http";
import { isBytes } from "../bytes.ts";
import { alreadyDecompressed, answerTo, bodyParsed, deliveryOf, isEncoded, tooLarge } from "./body.ts";
import type { Answer, Receiver } from "./delivery.ts";
import { receiveStream, writeAnswer } from "./node.ts";

/** The part of an Express request that this adapter looks at. */
export interface ExpressRequest extends IncomingMessage {
  /** A Buffer after `express.raw()`. */
  body?: unknown;
  /** A Buffer where a platform or a `verify` hook kept the bytes beside what it parsed. */
  rawBody?: unknown;
}

/**
 * Mounts a receiver on Express 5 or 4:
 *
 * ```ts
 * app.post("/webhooks/stripe", expressHandler(billing)); // before express.json()
 * app.use(express.json());
 * ```
 *
 * Behind `express.raw({ type: () => true, limit })` it takes the Buffer. Behind `express.json()` the signed
 * bytes are gone: it answers 500 `body_parsed`, and the sender tries again once that is mended.
 */
export function expressHandler(receiver: Receiver): (req: ExpressRequest, res: ServerResponse) => void {
  return (req, res) => {
    const write = (answer: Answer): void => writeAnswer(req, res, answer);
    const kept = isBytes(req.rawBody) ? req.rawBody : req.body;
    // Express 4 leaves an empty object in `body` even where no parser read the stream, so ask the stream.
    if (!isBytes(kept)) return receiveStream(receiver, req, parsedFirst, write);
    // Parsers of Express decompress what they read, so these are not the bytes that were sent.
    if (isEncoded(req.headers["content-encoding"])) return write(alreadyDecompressed);
    if (kept.length > receiver.maxBytes) return write(tooLarge);
    void answerTo(receiver, deliveryOf(req.method ?? "", req.headers, kept)).then(write);
  };
}

const parsedFirst = bodyParsed("mount this before express.json()");
