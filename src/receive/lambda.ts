import { answerTo, bodyParsed, deliveryOf, noBytes, tooLarge } from "./body.ts";
import type { Answer, Receiver } from "./delivery.ts";

/** What function URLs, API Gateway (payload 1.0 and 2.0) and load balancers call a function with. */
export interface LambdaEvent {
  /** API Gateway 1.0 and load balancers. */
  readonly httpMethod?: string | undefined;
  /** Function URLs and API Gateway 2.0 have `http.method` in it; the others' has nothing in common with that. */
  readonly requestContext?: unknown;
  readonly headers?: Readonly<Record<string, string | undefined>> | null | undefined;
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[] | undefined>> | null | undefined;
  readonly body?: string | null | undefined;
  readonly isBase64Encoded?: boolean | undefined;
}

export interface LambdaResult {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly multiValueHeaders?: Record<string, string[]>;
  readonly body: string;
  readonly isBase64Encoded: false;
}

/**
 * Mounts a receiver on AWS Lambda:
 *
 * ```ts
 * export const handler = lambdaHandler(billing);
 * ```
 *
 * A REST API (payload 1.0) decodes bodies as UTF-8 and loses bytes that are none, unless its
 * `binaryMediaTypes` has the sender's content type. The others send such bodies as base64.
 */
export function lambdaHandler(receiver: Receiver): (event: LambdaEvent) => Promise<LambdaResult> {
  return async (event) => resultOf(event, await receiveEvent(receiver, event));
}

const parsedFirst = bodyParsed("hand on the event before a middleware parses its body");

async function receiveEvent(receiver: Receiver, event: LambdaEvent): Promise<Answer> {
  const body: unknown = event.body ?? "";
  if (typeof body !== "string") return parsedFirst;
  const encoding = event.isBase64Encoded ? "base64" : "utf8";
  if (Buffer.byteLength(body, encoding) > receiver.maxBytes) return tooLarge;
  const bytes = body === "" ? noBytes : Buffer.from(body, encoding);
  return answerTo(receiver, deliveryOf(methodOf(event), headersOf(event), bytes));
}

function methodOf({ requestContext, httpMethod }: LambdaEvent): string {
  const context = requestContext as { readonly http?: { readonly method?: string } } | null | undefined;
  return context?.http?.method ?? httpMethod ?? "";
}

/** By lower-case name; `multiValueHeaders` has all values where `headers` has the last. */
function headersOf({ headers, multiValueHeaders }: LambdaEvent): Record<string, string | readonly string[]> {
  const found: Record<string, string | readonly string[]> = Object.create(null);
  for (const [name, value] of Object.entries(multiValueHeaders ?? headers ?? {})) {
    if (value !== undefined) found[name.toLowerCase()] = value;
  }
  return found;
}

function resultOf(event: LambdaEvent, answer: Answer): LambdaResult {
  const { status: statusCode, body } = answer;
  const result: LambdaResult = { statusCode, headers: { ...answer.headers }, body, isBase64Encoded: false };
  // A load balancer that sends lists of values reads nothing but lists in the answer.
  if (event.headers || !event.multiValueHeaders) return result;
  const lists = Object.entries(answer.headers).map(([name, value]): [string, string[]] => [name, [value]]);
  return { ...result, multiValueHeaders: Object.fromEntries(lists) };
}
