// Fastify: a plugin with body parsing of its own, so that other routes keep theirs.
import { fastify } from "fastify";
import { fastifyPlugin } from "onceward/fastify";
import { billing, once } from "./billing.ts";

const app = fastify();
await app.register(fastifyPlugin(billing, { path: "/webhooks/stripe" }));
app.post("/echo", (request) => request.body);

await once.start();
await app.listen({ port: Number(process.env["PORT"] ?? 3000), host: "127.0.0.1" });
export const { server } = app;
