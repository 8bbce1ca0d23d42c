/** The small programs in examples/frameworks and examples/databases, run as they stand there. */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import type { Once } from "../../src/once.ts";
import { event, SECRET, signature } from "../handler/support.ts";
import { needsPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { describeWith } from "../support/postgres.ts";
import { generateClient } from "../support/prisma.ts";
import { typecheck } from "../support/typecheck.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

interface Program {
  readonly once: Once;
  readonly server: Server;
}

describeWith("newest", "the examples", (database) => {
  let client: pg.Client;
  let program: Partial<Program> = {};

  beforeAll(async () => {
    client = new pg.Client({ connectionString: database().url });
    await client.connect();
    await client.query("create table orders (session text primary key)");
  });
  beforeEach(() => {
    vi.stubEnv("DATABASE_URL", database().url);
    vi.stubEnv("STRIPE_WEBHOOK_SECRET", SECRET);
    vi.stubEnv("PORT", "0");
  });
  afterEach(async () => {
    program.server?.closeAllConnections();
    program.server?.close();
    await program.once?.stop();
    program = {};
    vi.unstubAllEnvs();
    // Each program has an `once` of its own.
    vi.resetModules();
  });
  afterAll(() => client?.end());

  /** A request with a checkout, and whether its order is there, once. */
  function checkout(): { request: RequestInit; ordered(): Promise<void> } {
    const sent = event("checkout.session.completed");
    const body = JSON.stringify(sent);
    return {
      request: {
        method: "POST",
        body,
        headers: { "stripe-signature": signature(body), connection: "close" },
      },
      async ordered() {
        const rows = async (): Promise<number | null> =>
          (await client.query("select from orders where session = $1", [sent.data.object.id])).rowCount;
        await expect.poll(rows, { timeout: 60_000 }).toBe(1);
      },
    };
  }

  async function sendTwice(path: string): Promise<void> {
    const { port } = program.server!.address() as AddressInfo;
    const { request, ordered } = checkout();
    const answers: unknown[] = [];
    for (let i = 0; i < 2; i++)
      answers.push(await (await fetch(`http://127.0.0.1:${port}${path}`, request)).json());
    expect(answers).toEqual([{ outcome: "accepted" }, { outcome: "duplicate" }]);
    await ordered();
  }

  async function listening(server: Server): Promise<void> {
    if (!server.listening) await new Promise<void>((resolve) => server.once("listening", resolve));
  }

  async function run(file: string): Promise<void> {
    program = (await import(file)) as Program;
    await listening(program.server!);
  }

  it.each(["express", "fastify", "hono"])(
    "%s takes a checkout once, and its other routes read JSON",
    async (name) => {
      await run(join(root, `examples/frameworks/${name}.ts`));
      const { once } = (await import(join(root, "examples/frameworks/billing.ts"))) as Program;
      program = { ...program, once };
      await sendTwice("/webhooks/stripe");
      const { port } = program.server!.address() as AddressInfo;
      const echo = await fetch(`http://127.0.0.1:${port}/echo`, {
        method: "POST",
        body: '{"ping":1}',
        headers: { "content-type": "application/json", connection: "close" },
      });
      expect(await echo.json()).toEqual({ ping: 1 });
    },
  );

  it("next handles a checkout before it answers, where no worker runs", async () => {
    const { POST } = (await import(join(root, "examples/frameworks/next.ts"))) as {
      POST(request: Request): Promise<Response>;
    };
    program = (await import(join(root, "examples/frameworks/billing.ts"))) as Program;
    const { request, ordered } = checkout();
    const post = () => POST(new Request("http://localhost/webhooks/stripe", request));
    expect(await (await post()).json()).toEqual({ outcome: "done" });
    expect(await (await post()).json()).toEqual({ outcome: "duplicate" });
    await ordered();
  });

  it.each(["drizzle", "kysely"])("%s takes a checkout once, in its own transaction", async (name) => {
    await run(join(root, `examples/databases/${name}.ts`));
    await sendTwice("/");
  });

  it("prisma takes a checkout once, in its own transaction, with the types of its models", async () => {
    mkdirSync(join(root, ".onceward"), { recursive: true });
    const folder = mkdtempSync(join(root, ".onceward/example-"));
    try {
      cpSync(join(root, "examples/databases/prisma"), folder, { recursive: true });
      generateClient(folder);
      expect(await typecheck(folder, ["main.ts"])).toBe("");
      await run(join(folder, "main.ts"));
      await sendTwice("/");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("supabase takes a checkout once, through a pooler in transaction mode", async (context) => {
    await needsPgBouncer(context);
    const pooler = await startPgBouncer({ upstream: database().url });
    try {
      vi.stubEnv("DIRECT_URL", database().url);
      vi.stubEnv("DATABASE_URL", pooler.url);
      await run(join(root, "examples/databases/supabase.ts"));
      await sendTwice("/");
      program.server!.closeAllConnections();
      program.server!.close();
      await program.once!.stop();
      program = {};
    } finally {
      await pooler.stop();
    }
  });
});
