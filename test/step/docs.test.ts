import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Job } from "../../src/job/job.ts";
import type { Once } from "../../src/once.ts";
import { startMailServer, type MailServer } from "../mail/smtp.ts";
import { type Clock, fakeClock } from "../support/clock.ts";
import { describeWith } from "../support/postgres.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/steps.md"), "utf8");

describeWith("newest", "docs/steps.md", (fresh) => {
  // Inside the project, so that the programs find their packages.
  mkdirSync(join(root, ".onceward"), { recursive: true });
  const folder = mkdtempSync(join(root, ".onceward/docs-"));
  let pool: pg.Pool;
  let clock: Clock;
  let mails: MailServer;
  const calls: string[] = [];
  const provider = createServer((request, response) => {
    calls.push(`${request.method} ${request.url}`);
    const known = request.url?.startsWith("/labels/") ? 404 : 200;
    response.writeHead(known, { "content-type": "application/json" }).end('{"id":"pi_1","tracking":"T1"}');
  });

  beforeAll(async () => {
    await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
    mails = await startMailServer();
    const host = `127.0.0.1:${(provider.address() as AddressInfo).port}`;
    vi.stubEnv("DATABASE_URL", fresh().url);
    vi.stubEnv("STRIPE_KEY", "sk_test_1");
    vi.stubEnv("SHIPPING_URL", `http://${host}`);
    vi.stubEnv("PRINTER_URL", `http://${host}`);
    vi.stubEnv("SMTP_URL", `smtp://127.0.0.1:${mails.port}`);
    pool = new pg.Pool({ connectionString: fresh().url });
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
    await pool?.end();
    await mails?.close();
    provider.closeAllConnections();
    await new Promise((resolve) => provider.close(resolve));
  });

  /** The program under a heading, with its `once` started. */
  async function program<Exports>(heading: string): Promise<Exports & { once: Once }> {
    const code = /```ts\n([^]*?)```/.exec(page.split(`## ${heading}\n`)[1]!)![1]!;
    const file = join(folder, `${heading.replaceAll(/\W/g, "-")}.ts`);
    const { port } = provider.address() as AddressInfo;
    writeFileSync(
      file,
      code
        .replace(/from "onceward"/, `from ${JSON.stringify(join(root, "src/index.ts"))}`)
        // No test talks to the world outside.
        .replace(
          /new Stripe\(([^)]*)\)/,
          `new Stripe($1, { host: "127.0.0.1", port: ${port}, protocol: "http" })`,
        ),
    );
    const exports = (await import(file)) as Exports & { once: Once };
    await exports.once.start();
    clock ??= await fakeClock(exports.once.database);
    return exports;
  }
  const look = async (job: Job, key: string) =>
    (await pool.query("select onceward.look($1, $2) as task", [job.scope, key])).rows[0].task as Record<
      string,
      unknown
    >;
  const reaches = (job: Job, key: string, state: object) =>
    vi.waitFor(async () => expect(await look(job, key)).toMatchObject(state), {
      timeout: 60_000,
      interval: 50,
    });

  it("shows a job in three steps that sleeps, and it works", async () => {
    const { once, fulfil } = await program<{ fulfil: Job<{ id: string; amount: number }> }>(
      "A job in three steps",
    );
    await once.enqueue(fulfil, { id: "order_1", amount: 500 }, { key: "order_1" });
    await reaches(fulfil, "order_1", {
      state: "waiting",
      steps: [{ name: "ship" }, { name: "charge" }, { state: "waiting" }],
    });
    await clock.advance(3 * 24 * 3_600_000);
    once.engine.worker.wake();
    await reaches(fulfil, "order_1", { state: "done", result: '{"tracking":"T1","intent":"pi_1"}' });
    expect(calls.splice(0)).toEqual(["POST /shipments", "POST /v1/payment_intents"]);
    await once.stop();
  });

  it("shows a step that commits with the user's rows, and it works", async () => {
    await pool.query("create table accounts (id text, credits int)");
    await pool.query("insert into accounts values ('ann', 0)");
    const { once, credit } = await program<{ credit: Job<{ account: string }> }>(
      "Exactly once, in your database",
    );
    await once.enqueue(credit, { account: "ann" }, { key: "ann" });
    await reaches(credit, "ann", { state: "done" });
    expect((await pool.query("select credits from accounts")).rows).toEqual([{ credits: 10 }]);
    await once.stop();
  });

  it("shows a step that asks after a crash, and it works", async () => {
    const { once, print } = await program<{ print: Job<{ label: string }> }>("The unknown outcome");
    const task = await print.task({ label: "x" }, { key: "asked" });
    await once.engine.ledger.recordAndClaim(task);
    await once.engine.ledger.saveStep({ ...task, attempt: 1, name: "print", state: "started" });
    await once.engine.ledger.verbs.defer({ ...task, attempt: 1 });
    await reaches(print, "asked", { state: "done", result: '"printed"' });
    expect(calls.splice(0)).toEqual([expect.stringMatching(/^GET \/labels\/[\w-]{32}$/), "POST /labels"]);
    await once.stop();
  });

  it("shows an approval that is bound to what was approved, and it works", async () => {
    const { once, publish, approve } = await program<{
      publish: Job<{ topic: string }>;
      approve(key: string, draft: string, actor: string): Promise<{ outcome: string }>;
    }>("Waiting for people");
    await once.enqueue(publish, { topic: "steps" }, { key: "steps" });
    await reaches(publish, "steps", {
      state: "waiting",
      steps: [{ name: "draft" }, { name: "approval", state: "waiting" }],
    });
    expect(await approve("steps", "About something else", "ann")).toMatchObject({ outcome: "conflict" });
    expect(await approve("steps", "About steps", "ann")).toEqual({ outcome: "sent" });
    await reaches(publish, "steps", { state: "done", result: '"published, approved by ann"' });
    await once.stop();
  });

  it("shows a mail that is sent once, and it works", async () => {
    const { once, welcome } = await program<{ welcome: Job<{ to: string }> }>("Mail");
    await once.enqueue(welcome, { to: "ann@example.com" }, { key: "ann" });
    await reaches(welcome, "ann", { state: "done" });
    expect(mails.taken).toEqual([expect.stringMatching(/^<[\w-]{32}@example\.com>$/)]);
    await once.stop();
  });

  it("names tests that exist", () => {
    for (const [, path] of page.matchAll(/`(test\/[\w/.-]+)`/g))
      expect(() => readFileSync(join(root, path!))).not.toThrow();
  });
});
