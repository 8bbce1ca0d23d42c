import { answerTo, bodyParsed, brokenOff, noBytes, tooLarge } from "./body.ts";
import type { Answer, Delivery, Receiver } from "./delivery.ts";

/**
 * Mounts a receiver wherever a `Request` is answered with a `Response`:
 *
 * ```ts
 * export const POST = fetchHandler(billing);  // Next: app/webhooks/stripe/route.ts
 * Deno.serve(fetchHandler(billing));          // Deno
 * Bun.serve({ fetch: fetchHandler(billing) });
 * export default { fetch: fetchHandler(billing) }; // Workers and other edges
 * ```
 */
export function fetchHandler(receiver: Receiver): (request: Request) => Promise<Response> {
  return async (request) => responseOf(await receiveRequest(receiver, request, parsedFirst));
}

const parsedFirst = bodyParsed("hand on the request before json(), text() or formData() is called on it");

/**
 * With a body left unread the connection cannot carry another request. The stream is left alone as well:
 * cancelling it destroys the socket on some servers, and the answer with it.
 */
const unread: Answer = { ...tooLarge, headers: { ...tooLarge.headers, connection: "close" } };

/** Reads the whole body and hands it to the receiver. */
export async function receiveRequest(
  receiver: Receiver,
  request: Request,
  consumed: Answer,
): Promise<Answer> {
  if (request.bodyUsed) return consumed;
  let body: Uint8Array | undefined;
  try {
    body = await readBody(request, receiver.maxBytes);
  } catch {
    // Not even begun: somebody holds a reader. Begun: the sender left, and the server still wants some answer.
    return request.bodyUsed ? brokenOff : consumed;
  }
  return body ? answerTo(receiver, requestDelivery(request, body)) : unread;
}

/** Undefined when there is more than `maxBytes`. */
async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  const declared = Number(request.headers.get("content-length") ?? Number.NaN);
  if (declared > maxBytes) return undefined;
  // A server lets no more through than was declared. Servers on Node read a body as a whole in a third of the
  // time that its stream takes (70 µs against 230 µs a request of 3 KB), so the stream is not even touched.
  if (declared <= maxBytes) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    return bytes.length <= maxBytes ? bytes : undefined;
  }
  return request.body ? readStream(request.body, maxBytes) : noBytes;
}

async function readStream(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return joined(chunks, size);
    size += value.length;
    if (size > maxBytes) return undefined;
    chunks.push(value);
  }
}

function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

export function requestDelivery({ method, headers }: Request, body: Uint8Array): Delivery {
  return {
    method,
    body,
    header: (name) => {
      try {
        return headers.get(name) ?? undefined;
      } catch {
        return undefined; // not a name that a header could have
      }
    },
  };
}

/** Statuses whose Response must have no body, not even an empty one. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

export function responseOf({ status, headers, body }: Answer): Response {
  return new Response(bodiless.has(status) ? null : body, { status, headers: { ...headers } });
}
