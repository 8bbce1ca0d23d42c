import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { nodeHandler } from "../../../src/receive/node.ts";
import { echo } from "./echo.ts";
import { adapterSuite, listen } from "./suite.ts";
import { send } from "./wire.ts";

adapterSuite({
  name: "node:http",
  advice: /before anything reads it/,
  start: (receiver) => {
    const handle = nodeHandler(receiver);
    return listen(
      createServer(async (req, res) => {
        if (req.url === "/parsed") await once(req.resume(), "end");
        handle(req, res);
      }),
    );
  },
});

async function sendTo(listener: RequestListener, body: string) {
  const server = await listen(createServer(listener));
  try {
    return await send((server.address() as AddressInfo).port, { body: Buffer.from(body) });
  } finally {
    server.close();
  }
}

it("passes on a body of one chunk without a copy", async () => {
  const receiver = echo();
  const chunks: Uint8Array[] = [];
  await sendTo((req, res) => {
    nodeHandler(receiver)(req, res);
    req.on("data", (chunk: Uint8Array) => chunks.push(chunk));
  }, "one chunk");
  expect(chunks).toHaveLength(1);
  expect(receiver.received[0]!.body).toBe(chunks[0]);
});

it("says so when the stream was set to decode its bytes", async () => {
  const receiver = echo();
  const reply = await sendTo((req, res) => nodeHandler(receiver)(req.setEncoding("utf8"), res), "é");
  expect(reply.status).toBe(500);
  expect(JSON.parse(reply.body).error.code).toBe("body_parsed");
  expect(receiver.received).toHaveLength(0);
});

it("leaves a request alone that was answered meanwhile", async () => {
  const receiver = echo();
  const reply = await sendTo((req, res) => {
    receiver.reply = async () => {
      res.writeHead(504).end("too slow");
      return { status: 200, headers: {}, body: "late" };
    };
    nodeHandler(receiver)(req, res);
  }, "{}");
  expect(reply).toMatchObject({ status: 504, body: "too slow" });
});
