/** `onceward replay --dry-run` and `onceward backfill`, in this process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import type { BackfillReport } from "../../src/recover/backfill/backfill.ts";
import type { DryRunReport } from "../../src/recover/dry-run/dry-run.ts";
import { event } from "../handler/support.ts";
import { API_KEY, FakeStripe } from "../recover/fake-stripe.ts";
import { describeWith } from "../support/postgres.ts";
import { answerOf, onceward } from "./command.ts";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));

describeWith("newest", "commands that need handlers", (server) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-recover-"));
  let fake: FakeStripe;
  let database: Database<PgClient>;
  let number = 0;

  beforeAll(async () => {
    fake = await FakeStripe.start();
    database = pgDatabase(server().url);
    await migrate(database);
    await database.query("create table orders (id text primary key, email text)");
  });
  afterAll(async () => {
    await fake?.stop();
    await database?.close();
    rmSync(folder, { recursive: true });
  });

  /** Each command loads a configuration of its own: a process has one, and ends with it. */
  const withConfig = (...args: string[]): [string[], Record<string, string>] => {
    const file = join(folder, `onceward.config.${++number}.mjs`);
    writeFileSync(
      file,
      `import { createOnce } from ${JSON.stringify(join(dist, "index.js"))};
       import { stripe } from ${JSON.stringify(join(dist, "source/stripe.js"))};
       const once = createOnce({ database: process.env.TEST_DATABASE });
       once.source(stripe({ secrets: "whsec_test" })).on("invoice.paid", async ({ event, tx, enqueue }) => {
         await tx.query("insert into orders values ($1, 'ada@example.com')", [event.id]);
         await enqueue({ name: "mail" }, {}, { key: event.id });
       });
       export default { once };`,
    );
    const env = { TEST_DATABASE: server().url, STRIPE_API_KEY: API_KEY, STRIPE_API_BASE: fake.base };
    return [[...args, "--config", file], env];
  };
  const record = async (state: "waiting" | "dead"): Promise<string> => {
    const body = event("invoice.paid");
    await database.query("select onceward.record('stripe', $1, $2, 'invoice.paid')", [
      body.id,
      JSON.stringify(body),
    ]);
    if (state === "dead")
      await database.query(
        "update onceward.task set state = 'dead', due_at = null, finished_at = now(), reason = 'broken' where key = $1",
        [body.id],
      );
    return body.id;
  };
  const orders = async (): Promise<unknown[]> =>
    (await database.query("select id from orders order by id")).rows;

  it("replay --dry-run shows rows and calls by their keys, values only on request, and changes nothing", async () => {
    const id = await record("dead");
    const { code, stdout } = await onceward(...withConfig("replay", id, "--dry-run"));
    expect(code).toBe(0);
    expect(stdout).toContain(`stripe ${id} (invoice.paid): would be done`);
    expect(stdout).toContain(`  + public.orders id=${id}`);
    expect(stdout).toContain(`  enqueues job/mail ${id}`);
    expect(stdout).not.toContain("ada@");
    const shown = await onceward(...withConfig("replay", id, "--dry-run", "--values"));
    expect(shown.stdout).toContain("email: ada@example.com");
    expect(await orders()).toEqual([]);
    const { rows } = await database.query("select state from onceward.task where key = $1", [id]);
    expect(rows).toEqual([{ state: "dead" }]);
  });

  it("replay --dry-run of many: each for itself, as data too", async () => {
    const ids = [await record("dead"), await record("dead")];
    const reports = await answerOf<DryRunReport[]>(
      ...withConfig("replay", "--state", "dead", "--dry-run", "--max", "2"),
    );
    expect(reports.map(({ key, outcome }) => [key, outcome])).toEqual(
      ids.toReversed().map((id) => [id, "done"]),
    );
    expect(await orders()).toEqual([]);
  });

  it("replay --dry-run needs handlers", async () => {
    const id = await record("dead");
    const { code, stderr } = await onceward(["replay", id, "--dry-run", "--database", server().url]);
    expect(code).toBe(1);
    expect(stderr).toContain("name a configuration with --config");
  });

  it("backfill fetches, ends with 2 where something was missing, and with a sentence", async () => {
    const missing = fake.add("invoice.paid", 3600);
    const first = await onceward(...withConfig("backfill", "stripe", "--since", "2 days"));
    expect(first).toMatchObject({ code: 1 });
    expect(first.stderr).toContain("say --yes");
    const { code, stdout } = await onceward(
      ...withConfig("backfill", "stripe", "--since", "2 days", "--yes", "--actor", "ada"),
    );
    expect(code).toBe(2);
    expect(stdout).toMatch(
      /^stripe: 1 event was missing, and recorded now, up to \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/,
    );
    expect(await orders()).toContainEqual({ id: missing.id });
    const again = await onceward(...withConfig("backfill"));
    expect(again.code).toBe(0);
    expect(again.stdout).toMatch(/^stripe: nothing missing up to \d{4}-/);
    const report = await answerOf<BackfillReport>(...withConfig("backfill", "--failed-only"));
    expect(report).toMatchObject({ source: "stripe", missing: 0 });
    const { rows } = await database.query(
      "select actor, what, scope from onceward.audit where actor = 'ada'",
    );
    expect(rows).toEqual([{ actor: "ada", what: "backfill", scope: "stripe" }]);
    const shown = await onceward(["show", missing.id, "--database", server().url]);
    expect(shown.stdout).toMatch(/came by +backfill/);
    const listed = await onceward(["list", "--contains", missing.id, "--database", server().url]);
    expect(listed.stdout).toMatch(/came by[\s\S]*backfill/);
  });

  it("backfill says what it needs", async () => {
    const [args, env] = withConfig("backfill");
    const { code, stderr } = await onceward(args, { ...env, STRIPE_API_KEY: "" });
    expect(code).toBe(1);
    expect(stderr).toContain("Set STRIPE_API_KEY");
  });
});
