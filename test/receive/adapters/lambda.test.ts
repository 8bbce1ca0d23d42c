import { createServer, type IncomingMessage } from "node:http";
import { lambdaHandler, type LambdaEvent } from "../../../src/receive/lambda.ts";
import { expect, it } from "vitest";
import { echo, maxBytes } from "./echo.ts";
import { adapterSuite, listen } from "./suite.ts";

/** Turns an HTTP request into the event of one kind of front. */
type Front = (req: IncomingMessage, body: Buffer) => LambdaEvent;

function valuesOf({ rawHeaders }: IncomingMessage): Record<string, string[]> {
  const values: Record<string, string[]> = {};
  for (let at = 0; at < rawHeaders.length; at += 2)
    (values[rawHeaders[at]!] ??= []).push(rawHeaders[at + 1]!);
  return values;
}

function mapped<T>(values: Record<string, string[]>, map: (name: string, values: string[]) => [string, T]) {
  return Object.fromEntries(Object.entries(values).map(([name, list]) => map(name, list)));
}

const lastValues = (req: IncomingMessage) => mapped(valuesOf(req), (name, list) => [name, list.at(-1)!]);
const joinedByComma = (req: IncomingMessage) =>
  mapped(valuesOf(req), (name, list) => [name.toLowerCase(), list.join(",")]);

const fronts: Record<string, Front> = {
  "a function URL": (req, body) => ({
    requestContext: { http: { method: req.method! } },
    headers: joinedByComma(req),
    ...(body.length > 0 && { body: body.toString("base64") }),
    isBase64Encoded: body.length > 0,
  }),
  "API Gateway 1.0": (req, body) => ({
    httpMethod: req.method!,
    headers: lastValues(req),
    multiValueHeaders: valuesOf(req),
    body: body.length > 0 ? body.toString("base64") : null,
    isBase64Encoded: true,
  }),
  "a load balancer with lists of values": (req, body) => ({
    httpMethod: req.method!,
    multiValueHeaders: mapped(valuesOf(req), (name, list) => [name.toLowerCase(), list]),
    body: body.toString("base64"),
    isBase64Encoded: true,
  }),
};

for (const [name, front] of Object.entries(fronts)) {
  adapterSuite({
    name: `Lambda behind ${name}`,
    advice: /before a middleware parses its body/,
    readsFirst: true,
    ...(name === "a function URL" && { joinedHeaders: "a,b" }),
    start: (receiver) => {
      const handle = lambdaHandler(receiver);
      return listen(
        createServer(async (req, res) => {
          const chunks: Buffer[] = [];
          try {
            for await (const chunk of req) chunks.push(chunk as Buffer);
          } catch {
            return;
          }
          const event = front(req, Buffer.concat(chunks));
          const parsed = req.url === "/parsed" ? { body: { id: 1 } as unknown as string } : {};
          const result = await handle({ ...event, ...parsed });
          res
            .writeHead(result.statusCode, { ...result.headers, ...result.multiValueHeaders })
            .end(result.body);
        }),
      );
    },
  });
}

it("takes a body that is text, byte order mark and all", async () => {
  const receiver = echo();
  const body = '\ufeff{"name":"Zoë"}\n';
  await lambdaHandler(receiver)({ httpMethod: "POST", headers: {}, body, isBase64Encoded: false });
  await lambdaHandler(receiver)({ httpMethod: "POST", body });
  expect(receiver.received.map((delivery) => Buffer.from(delivery.body).toString())).toEqual([body, body]);
});

it("answers in the shape that all fronts read", async () => {
  const receiver = echo();
  receiver.reply = () => ({ status: 503, headers: { "retry-after": "5" }, body: "later" });
  const handle = lambdaHandler(receiver);
  const answer = { statusCode: 503, headers: { "retry-after": "5" }, body: "later", isBase64Encoded: false };
  const lists = { "x-a": ["1"] };
  expect(await handle({ requestContext: { http: { method: "POST" } }, headers: {} })).toEqual(answer);
  expect(await handle({ httpMethod: "POST", headers: {}, multiValueHeaders: lists })).toEqual(answer);
  expect(await handle({ httpMethod: "POST", multiValueHeaders: lists })).toEqual({
    ...answer,
    multiValueHeaders: { "retry-after": ["5"] },
  });
});

it("stands an event with nothing in it", async () => {
  const receiver = echo();
  expect((await lambdaHandler(receiver)({})).statusCode).toBe(200);
  expect(
    (await lambdaHandler(receiver)({ headers: null, multiValueHeaders: null, body: null })).statusCode,
  ).toBe(200);
  for (const { method, body, header } of receiver.received) {
    expect([method, body.length, header("content-type")]).toEqual(["", 0, undefined]);
  }
});

it("counts bytes, not characters", async () => {
  const receiver = echo();
  const handle = lambdaHandler(receiver);
  expect((await handle({ body: "é".repeat(maxBytes / 2) })).statusCode).toBe(200);
  expect((await handle({ body: "é".repeat(maxBytes / 2 + 1) })).statusCode).toBe(413);
  const base64 = (size: number) => ({ body: Buffer.alloc(size).toString("base64"), isBase64Encoded: true });
  expect((await handle(base64(maxBytes))).statusCode).toBe(200);
  expect((await handle(base64(maxBytes + 1))).statusCode).toBe(413);
  expect(receiver.received.map(({ body }) => body.length)).toEqual([maxBytes, maxBytes]);
});

/** The shapes of @types/aws-lambda, as far as they matter: interfaces, whose contexts have nothing in common. */
interface ProxyContext {
  accountId: string;
  httpMethod: string;
  authorizer: Record<string, unknown> | null | undefined;
}
interface ProxyEvent {
  body: string | null;
  headers: { [name: string]: string | undefined };
  multiValueHeaders: { [name: string]: string[] | undefined };
  httpMethod: string;
  isBase64Encoded: boolean;
  path: string;
  requestContext: ProxyContext;
}
interface BalancerEvent {
  requestContext: { elb: { targetGroupArn: string } };
  httpMethod: string;
  headers?: { [name: string]: string | undefined } | undefined;
  multiValueHeaders?: { [name: string]: string[] | undefined } | undefined;
  body: string | null;
  isBase64Encoded: boolean;
}
interface UrlEvent {
  version: string;
  headers: { [name: string]: string | undefined };
  requestContext: { accountId: string; http: { method: string; path: string } };
  body?: string | undefined;
  isBase64Encoded: boolean;
}
interface ProxyResult {
  statusCode: number;
  headers?: { [name: string]: boolean | number | string } | undefined;
  multiValueHeaders?: { [name: string]: (boolean | number | string)[] } | undefined;
  body: string;
  isBase64Encoded?: boolean | undefined;
}
type Handle<Event> = (
  event: Event,
  context: object,
  callback: (error?: Error | string | null, result?: ProxyResult) => void,
) => void | Promise<ProxyResult>;

it("is a handler of every front's own type", async () => {
  // The compiler checks these.
  const proxy: Handle<ProxyEvent> = lambdaHandler(echo());
  const balancer: Handle<BalancerEvent> = lambdaHandler(echo());
  const url: Handle<UrlEvent> = lambdaHandler(echo());
  expect([proxy, balancer, url].map((handle) => typeof handle)).toEqual(Array(3).fill("function"));
});
