import { createServer, type Server } from "node:http";
import { Readable } from "node:stream";
import { createAdaptorServer } from "@hono/node-server";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { fetchHandler } from "../../../src/receive/fetch.ts";
import { expect, it } from "vitest";
import { echo, maxBytes } from "./echo.ts";
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

const url = "http://localhost/hook";

function streaming(body: ReadableStream<Uint8Array>, headers: Record<string, string> = {}): Request {
  return new PlatformRequest(url, { method: "POST", body, headers, duplex: "half" } as RequestInit);
}

it("says so when somebody holds the body's reader, or has read it", async () => {
  const receiver = echo();
  for (const headers of [{}, { "content-length": "2" }]) {
    const held = new PlatformRequest(url, { method: "POST", body: "{}", headers });
    held.body!.getReader();
    const read = new PlatformRequest(url, { method: "POST", body: "{}", headers });
    await read.json();
    for (const request of [held, read]) {
      const response = await fetchHandler(receiver)(request);
      expect(response.status).toBe(500);
      expect(await response.json()).toMatchObject({ error: { code: "body_parsed" } });
    }
  }
  expect(receiver.received).toHaveLength(0);
});

it("takes what another reads from a clone", async () => {
  const receiver = echo();
  const request = new PlatformRequest(url, { method: "POST", body: "{}" });
  await request.clone().text();
  expect((await fetchHandler(receiver)(request)).status).toBe(200);
  expect(Buffer.from(receiver.received[0]!.body).toString()).toBe("{}");
});

it("pulls no more than a chunk past the limit", async () => {
  const receiver = echo();
  let pulled = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 65_536;
      controller.enqueue(new Uint8Array(65_536));
    },
  });
  expect((await fetchHandler(receiver)(streaming(endless))).status).toBe(413);
  expect(pulled).toBeLessThanOrEqual(maxBytes + 2 * 65_536);
  expect(receiver.received).toHaveLength(0);
});

it("refuses more than the limit under a Content-Length that is not true", async () => {
  const receiver = echo();
  const body = new Blob([new Uint8Array(maxBytes + 1)]).stream();
  const response = await fetchHandler(receiver)(streaming(body, { "content-length": "2" }));
  expect(response.status).toBe(413);
  expect(receiver.received).toHaveLength(0);
});

it.each([{}, { "content-length": "4" }])("receives nothing when the stream breaks (%o)", async (headers) => {
  const receiver = echo();
  let begun = false;
  const broken = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (begun) controller.error(new Error("gone"));
      else controller.enqueue(new Uint8Array(2));
      begun = true;
    },
  });
  const response = await fetchHandler(receiver)(streaming(broken, headers));
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { code: "body_unreadable" } });
  expect(receiver.received).toHaveLength(0);
});
