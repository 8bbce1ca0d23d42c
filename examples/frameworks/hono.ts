// Hono, here on Node; it is the same on Deno, Bun and at the edge.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { honoHandler } from "onceward/hono";
import { billing, once } from "./billing.ts";

const app = new Hono();
app.post("/webhooks/stripe", honoHandler(billing));
app.post("/echo", async (c) => c.json(await c.req.json()));

await once.start();
export const server = serve({
  fetch: app.fetch,
  port: Number(process.env["PORT"] ?? 3000),
  hostname: "127.0.0.1",
});
