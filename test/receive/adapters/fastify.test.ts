import { createGunzip, gzipSync } from "node:zlib";
import fastify, { type FastifyInstance } from "fastify";
import { fastifyHandler, fastifyPlugin } from "../../../src/receive/fastify.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { expect, it } from "vitest";
import { echo, maxBytes } from "./echo.ts";
import { adapterSuite } from "./suite.ts";

/** The app's own JSON, and the mistake of mounting the bare handler beside it. */
async function rest(app: FastifyInstance, receiver: Receiver) {
  app.post<{ Body: { ping: string } }>("/other", async ({ body }) => ({ got: body.ping }));
  app.post("/parsed", fastifyHandler(receiver));
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app.server;
}

const advice = /register fastifyPlugin/;

adapterSuite({
  name: "Fastify, as a plugin",
  advice,
  parsesJson: true,
  start: (receiver) => {
    // The limit of the app is smaller than the receiver's, which counts.
    const app = fastify({ bodyLimit: 1024 });
    void app.register(fastifyPlugin(receiver, { path: "/hook" }));
    return rest(app, receiver);
  },
});

adapterSuite({
  name: "Fastify, in a plugin of one's own with a buffer parser",
  advice,
  parsesJson: true,
  readsFirst: true,
  start: (receiver) => {
    const app = fastify({ bodyLimit: maxBytes * 4 });
    void app.register(async (own) => {
      own.removeAllContentTypeParsers();
      own.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
      own.all("/hook", fastifyHandler(receiver));
    });
    return rest(app, receiver);
  },
});

it("refuses what a hook decompressed", async () => {
  const app = fastify();
  app.addHook("preParsing", async (_request, _reply, payload) => payload.pipe(createGunzip()));
  const receiver = echo();
  void app.register(fastifyPlugin(receiver, { path: "/hook" }));
  const payload = gzipSync("{}");
  const headers = { "content-encoding": "gzip", "content-type": "application/json" };
  const encoded = await app.inject({ method: "POST", url: "/hook", payload, headers });
  expect([encoded.statusCode, encoded.json().error.code]).toEqual([415, "body_encoded"]);
  const hidden = await app.inject({ method: "POST", url: "/hook", payload });
  expect([hidden.statusCode, hidden.json().error.code]).toEqual([500, "body_parsed"]);
  expect(receiver.received).toHaveLength(0);
  await app.close();
});

it("says how to mount when the body became text or JSON's null", async () => {
  const app = fastify();
  const receiver = echo();
  app.post("/hook", fastifyHandler(receiver));
  for (const [type, payload] of Object.entries({ "text/plain": "text", "application/json": "null" })) {
    const headers = { "content-type": type };
    const reply = await app.inject({ method: "POST", url: "/hook", payload, headers });
    expect([reply.statusCode, reply.json().error.code]).toEqual([500, "body_parsed"]);
  }
  expect(receiver.received).toHaveLength(0);
  await app.close();
});

it("lets the app's hooks run before it", async () => {
  const app = fastify();
  const receiver = echo();
  app.addHook("preHandler", async (_request, reply) => reply.code(429).send("slow down"));
  void app.register(fastifyPlugin(receiver, { path: "/hook" }));
  expect((await app.inject({ method: "POST", url: "/hook", payload: "{}" })).statusCode).toBe(429);
  expect(receiver.received).toHaveLength(0);
  await app.close();
});
