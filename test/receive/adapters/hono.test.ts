import type { Server } from "node:http";
import { createAdaptorServer } from "@hono/node-server";
import { Hono } from "hono";
import { honoHandler } from "../../../src/receive/hono.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { adapterSuite, listen } from "./suite.ts";

function rest(app: Hono, receiver: Receiver) {
  app.post("/other", async (c) => c.json({ got: (await c.req.json()).ping }));
  app.use("/parsed", async (c, next) => {
    await c.req.json();
    await next();
  });
  app.all("/parsed", honoHandler(receiver));
  return listen(createAdaptorServer({ fetch: app.fetch }) as Server);
}

const advice = /before middleware that calls c\.req\.json\(\)/;

adapterSuite({
  name: "Hono",
  advice,
  parsesJson: true,
  start: (receiver) => {
    const app = new Hono();
    app.all("/hook", honoHandler(receiver));
    return rest(app, receiver);
  },
});
