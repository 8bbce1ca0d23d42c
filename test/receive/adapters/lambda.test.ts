import { createServer, type IncomingMessage } from "node:http";
import { lambdaHandler, type LambdaEvent } from "../../../src/receive/lambda.ts";
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

const lists = valuesOf;
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
    multiValueHeaders: lists(req),
    body: body.length > 0 ? body.toString("base64") : null,
    isBase64Encoded: true,
  }),
  "a load balancer with lists of values": (req, body) => ({
    httpMethod: req.method!,
    multiValueHeaders: mapped(lists(req), (name, list) => [name.toLowerCase(), list]),
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
