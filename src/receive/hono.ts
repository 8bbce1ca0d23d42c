import { answerTo, bodyParsed, brokenOff, tooLarge } from "./body.ts";
import type { Answer, Receiver } from "./delivery.ts";
import { receiveRequest, requestDelivery, responseOf } from "./fetch.ts";

/** The part of Hono's context that this adapter looks at. */
export interface HonoContext {
  readonly req: {
    readonly raw: Request;
    /** What middleware has read so far, by kind; reading another kind converts it, and the bytes change. */
    readonly bodyCache?: object;
    arrayBuffer(): Promise<ArrayBuffer>;
  };
}

/**
 * Mounts a receiver on Hono, on any runtime:
 *
 * ```ts
 * app.all("/webhooks/stripe", honoHandler(billing));
 * ```
 *
 * Middleware before it may call `c.req.arrayBuffer()`. After `c.req.json()` or `c.req.text()`, as validators
 * call them, the signed bytes are gone: it answers 500 `body_parsed`.
 */
export function honoHandler(receiver: Receiver): (c: HonoContext) => Promise<Response> {
  return async ({ req }) => {
    const read = Object.keys(req.bodyCache ?? {});
    if (read.length === 0) return responseOf(await receiveRequest(receiver, req.raw, parsedFirst));
    if (!read.includes("arrayBuffer")) return responseOf(parsedFirst);
    return responseOf(await receiveRead(receiver, req));
  };
}

const parsedFirst = bodyParsed("mount this before middleware that calls c.req.json() or c.req.text()");

/** For bytes that middleware has read already. */
async function receiveRead(receiver: Receiver, req: HonoContext["req"]): Promise<Answer> {
  let body: Uint8Array;
  try {
    body = new Uint8Array(await req.arrayBuffer());
  } catch {
    return brokenOff;
  }
  return body.length > receiver.maxBytes ? tooLarge : answerTo(receiver, requestDelivery(req.raw, body));
}
