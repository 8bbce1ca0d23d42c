import { answerTo, bodyParsed, tooLarge } from "./body.ts";
import type { Receiver } from "./delivery.ts";
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
 * Middleware before it may call `c.req.arrayBuffer()`. After `json()`, `text()`, `parseBody()` or a validator
 * the signed bytes are gone: it answers 500 `body_parsed`.
 */
export function honoHandler(receiver: Receiver): (c: HonoContext) => Promise<Response> {
  return async ({ req }) => {
    const read = Object.keys(req.bodyCache ?? {});
    if (read.length === 0) return responseOf(await receiveRequest(receiver, req.raw, parsedFirst));
    if (!read.includes("arrayBuffer")) return responseOf(parsedFirst);
    const body = new Uint8Array(await req.arrayBuffer());
    if (body.length > receiver.maxBytes) return responseOf(tooLarge);
    return responseOf(await answerTo(receiver, requestDelivery(req.raw, body)));
  };
}

const parsedFirst = bodyParsed("mount this before middleware that calls c.req.json(), text() or parseBody()");
