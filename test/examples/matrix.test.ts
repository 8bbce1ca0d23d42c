/**
 * Every framework with every database: an event is handled once, and its second delivery is a duplicate. PGlite and
 * Prisma, which take seconds to start, are left to the suite that all databases pass.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { drizzle } from "drizzle-orm/node-postgres";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, expect, it } from "vitest";
import { drizzleDatabase } from "../../src/database/drizzle.ts";
import { kyselyDatabase } from "../../src/database/kysely.ts";
import type { DatabaseInput } from "../../src/database/open.ts";
import { createOnce, type Once } from "../../src/once.ts";
import type { Receiver } from "../../src/receive/delivery.ts";
import { expressHandler } from "../../src/receive/express.ts";
import { fastifyPlugin } from "../../src/receive/fastify.ts";
import { fetchHandler } from "../../src/receive/fetch.ts";
import { honoHandler } from "../../src/receive/hono.ts";
import { lambdaHandler } from "../../src/receive/lambda.ts";
import { nodeHandler } from "../../src/receive/node.ts";
import { stripe } from "../../src/source/stripe.ts";
import { event, SECRET, signature } from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";

interface Sent {
  readonly body: string;
  readonly headers: Record<string, string>;
}
type Post = (sent: Sent) => Promise<unknown>;

const servers: Server[] = [];

/** Over HTTP, on a connection of its own. */
async function over(server: Server): Promise<Post> {
  servers.push(server);
  if (!server.listening) await new Promise<void>((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  return async ({ body, headers }) => {
    const request = { method: "POST", body, headers: { ...headers, connection: "close" } };
    return (await fetch(`http://127.0.0.1:${port}/hook`, request)).json();
  };
}

const frameworks: Record<string, (receiver: Receiver) => Promise<Post>> = {
  express: (receiver) => over(express().post("/hook", expressHandler(receiver)).listen(0, "127.0.0.1")),
  async fastify(receiver) {
    const app = fastify();
    await app.register(fastifyPlugin(receiver, { path: "/hook" }));
    await app.listen({ port: 0, host: "127.0.0.1" });
    return over(app.server);
  },
  hono(receiver) {
    const { fetch } = new Hono().post("/hook", honoHandler(receiver));
    return over(serve({ fetch, port: 0, hostname: "127.0.0.1" }) as Server);
  },
  "node:http": (receiver) => over(createServer(nodeHandler(receiver)).listen(0, "127.0.0.1")),
  async fetch(receiver) {
    const handle = fetchHandler(receiver);
    return async (sent) =>
      (await handle(new Request("http://localhost/", { method: "POST", ...sent }))).json();
  },
  async lambda(receiver) {
    const handle = lambdaHandler(receiver);
    const requestContext = { http: { method: "POST" } };
    return async (sent) => JSON.parse((await handle({ requestContext, ...sent })).body) as unknown;
  },
};

describeWith("newest", "every framework with every database", (fresh) => {
  let pool: pg.Pool;
  let sql: postgres.Sql;
  beforeAll(() => {
    pool = new pg.Pool({ connectionString: fresh().url });
    sql = postgres(fresh().url, { onnotice: () => {} });
  });
  afterAll(async () => {
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
    await pool?.end();
    await sql?.end();
  });

  const databases: Record<string, () => DatabaseInput<unknown> | string> = {
    "a URL": () => fresh().url,
    "a pg.Pool": () => pool,
    "postgres.js": () => sql,
    Drizzle: () => drizzleDatabase(drizzle({ client: pool })),
    Kysely: () => kyselyDatabase(new Kysely({ dialect: new PostgresDialect({ pool }) }), { client: pool }),
  };

  it.each(Object.keys(databases))("%s", async (name) => {
    const once = createOnce({ database: databases[name]!() as string }) as Once<unknown>;
    const handled: string[] = [];
    const billing = once.source(stripe({ secrets: SECRET }), { answer: "inline" });
    billing.on("invoice.paid", async ({ event: { id }, once: effect }) => {
      if (await effect(`credit:${id}`)) handled.push(id);
    });
    const expected: string[] = [];
    for (const mount of Object.values(frameworks)) {
      const post = await mount(billing);
      const sent = event("invoice.paid");
      const body = JSON.stringify(sent);
      const headers = { "stripe-signature": signature(body), "content-type": "application/json" };
      expect(await post({ body, headers })).toEqual({ outcome: "done" });
      expect(await post({ body, headers })).toEqual({ outcome: "duplicate" });
      expected.push(sent.id);
    }
    expect(handled).toEqual(expected);
    await once.stop();
  });
});
