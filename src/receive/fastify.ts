import type { IncomingMessage } from "node:http";
import { isBytes } from "../bytes.ts";
import { alreadyDecompressed, answerTo, bodyParsed, deliveryOf, isEncoded, tooLarge } from "./body.ts";
import type { Answer, Receiver } from "./delivery.ts";
import { receiveStream } from "./node.ts";

interface FastifyRequest {
  readonly raw: IncomingMessage;
  readonly body: unknown;
}

interface FastifyReply {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(payload: string): unknown;
}

type FastifyRoute = (request: FastifyRequest, reply: FastifyReply) => void;

/** The part of a Fastify instance that the plugin uses. */
interface FastifyApp {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: null, body: unknown) => void) => void,
  ): unknown;
  all(path: string, handler: FastifyRoute): unknown;
}

/**
 * Mounts a receiver on Fastify, as a plugin with body parsing of its own, so that other routes keep theirs:
 *
 * ```ts
 * app.register(fastifyPlugin(billing, { path: "/webhooks/stripe" }));
 * ```
 *
 * The receiver's `maxBytes` is the limit of the body, not the app's `bodyLimit`.
 */
export function fastifyPlugin(receiver: Receiver, { path }: { path: string }) {
  return async (app: FastifyApp): Promise<void> => {
    // The parsers for JSON and text are inherited and would win over "*".
    app.removeAllContentTypeParsers();
    // The stream is left unread for the handler, which knows the limit and what to answer.
    app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
    app.all(path, fastifyHandler(receiver));
  };
}

/**
 * The route handler alone, for a plugin of yours whose `"*"` parser gives a buffer (`parseAs: "buffer"`) or
 * leaves the stream unread. With Fastify's own JSON parser it answers 500 `body_parsed`.
 */
export function fastifyHandler(receiver: Receiver): FastifyRoute {
  return (request, reply) => {
    const { raw, body } = request;
    const write = (answer: Answer): void => writeReply(raw, reply, answer);
    if (body === undefined || body === raw) return receiveStream(receiver, raw, parsedFirst, write);
    if (isBytes(body)) {
      if (body.length > receiver.maxBytes) return write(tooLarge);
      return void answerTo(receiver, deliveryOf(raw.method ?? "", raw.headers, body)).then(write);
    }
    // Parsed, or another stream that a preParsing hook put in its place: those decompress.
    write(isEncoded(raw.headers["content-encoding"]) ? alreadyDecompressed : parsedFirst);
  };
}

const parsedFirst = bodyParsed('register fastifyPlugin, or give this route a "*" parser as buffer');

function writeReply(raw: IncomingMessage, reply: FastifyReply, answer: Answer): void {
  // What was not read still stands in the way of the next request on this connection.
  if (!raw.complete) reply.header("connection", "close");
  reply.code(answer.status);
  for (const name in answer.headers) reply.header(name, answer.headers[name]!);
  reply.send(answer.body);
}
