import { adapterSuite } from "./suite.ts";
import fastify, { type FastifyInstance } from "fastify";
import { fastifyHandler, fastifyPlugin } from "../../../src/receive/fastify.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { maxBytes } from "./echo.ts";

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
