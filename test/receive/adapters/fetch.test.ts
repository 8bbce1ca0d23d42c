import { createServer, type Server } from "node:http";
import { Readable } from "node:stream";
import { createAdaptorServer } from "@hono/node-server";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { fetchHandler } from "../../../src/receive/fetch.ts";
import { adapterSuite, listen } from "./suite.ts";

// The server below puts its own class in the place of the platform's.
const PlatformRequest = globalThis.Request;

const advice = /before json\(\), text\(\) or formData\(\) is called/;

function fetchOf(receiver: Receiver): (request: Request) => Promise<Response> {
  const handle = fetchHandler(receiver);
  return async (request) => {
    if (new URL(request.url).pathname === "/parsed") await request.text();
    return handle(request);
  };
}

adapterSuite({
  name: "fetch, on a server with requests of its own make",
  advice,
  start: (receiver) => listen(createAdaptorServer({ fetch: fetchOf(receiver) }) as Server),
});

adapterSuite({
  name: "fetch, with the platform's Request",
  advice,
  start: (receiver) => {
    const fetch = fetchOf(receiver);
    return listen(
      createServer(async (req, res) => {
        const bodiless = req.method === "GET" || req.method === "HEAD";
        const request = new PlatformRequest(`http://localhost${req.url}`, {
          method: req.method!,
          headers: pairsOf(req.rawHeaders),
          ...(!bodiless && { body: Readable.toWeb(req) as ReadableStream, duplex: "half" }),
        });
        const response = await fetch(request);
        res.writeHead(response.status, Object.fromEntries(response.headers));
        res.end(await response.text());
      }),
    );
  },
});

function pairsOf(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1]!] as [string, string]] : []));
}
