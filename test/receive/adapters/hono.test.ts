import type { Server } from "node:http";
import { createAdaptorServer } from "@hono/node-server";
import { Hono, type HonoRequest } from "hono";
import { honoHandler } from "../../../src/receive/hono.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { expect, it } from "vitest";
import { echo } from "./echo.ts";
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

adapterSuite({
  name: "Hono, behind middleware that read the bytes",
  advice,
  parsesJson: true,
  readsFirst: true,
  start: (receiver) => {
    const app = new Hono();
    app.use("/hook", async (c, next) => {
      await c.req.arrayBuffer().catch(() => {});
      await next();
    });
    app.all("/hook", honoHandler(receiver));
    return rest(app, receiver);
  },
});

const readings: Record<string, (request: HonoRequest) => Promise<unknown>> = {
  "text()": (request) => request.text(),
  "formData()": (request) => request.formData(),
  "raw.json()": (request) => request.raw.json(),
};

it.each(Object.keys(readings))("says how to mount behind %s", async (name) => {
  const receiver = echo();
  const app = new Hono();
  app.use(async (c, next) => {
    await readings[name]!(c.req).catch(() => {});
    await next();
  });
  app.post("/hook", honoHandler(receiver));
  const reply = await app.request("/hook", { method: "POST", body: new URLSearchParams({ a: "1" }) });
  expect(reply.status).toBe(500);
  expect(await reply.json()).toMatchObject({ error: { code: "body_parsed" } });
  expect(receiver.received).toHaveLength(0);
});
