import { execFile } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Finding } from "../../src/doctor/finding.ts";
import { poolerMode } from "../../src/doctor/pooler.ts";
import { schemaNames } from "../../src/doctor/schema.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { createOnce, type Once } from "../../src/once.ts";
import { stripe } from "../../src/source/stripe.ts";
import { createPglite } from "../support/pglite.ts";
import { needsPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { describeWith, type FreshDatabase } from "../support/postgres.ts";
import { urlOf } from "../ledger/support.ts";

const main = join(import.meta.dirname, "../../dist/cli/main.js");

/** The command in a process of its own, in an empty folder, without the environment of the tests. */
function doctor(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number; out: string }> {
  const cwd = mkdtempSync(join(tmpdir(), "onceward-doctor-"));
  const { PATH = "" } = process.env;
  return new Promise((resolve) => {
    const argv = [main, "doctor", ...args];
    execFile(process.execPath, argv, { cwd, env: { PATH, ...env } }, (error, stdout, stderr) => {
      rmSync(cwd, { recursive: true });
      resolve({ code: error ? Number(error.code) : 0, out: stdout || stderr });
    });
  });
}

/** The servers of the tests do not wait for the disk. */
const asExpected = new Set(["fsync", "full_page_writes", "synchronous_commit"]);

const wrongOf = (findings: readonly Finding[]): string[] =>
  findings.filter(({ level, code }) => level === "wrong" && !asExpected.has(code)).map(({ code }) => code);

describeWith("newest", "the doctor, on a real server", (fresh: () => FreshDatabase) => {
  let once: Once;
  beforeAll(async () => {
    const url = urlOf(fresh);
    if (url === undefined) return;
    once = createOnce({ database: url });
    await migrate(once.database);
  });
  afterAll(() => once?.stop());
  const query = (text: string): Promise<unknown> => once.database.query(text);
  /** What is found while something is broken, and that it is not found before and after. */
  const whileBroken = async (code: string, bad: string, mend: string): Promise<Finding[]> => {
    expect(wrongOf(await once.recovery.doctor())).not.toContain(code);
    await query(bad);
    try {
      return [...(await once.recovery.doctor())].filter((one) => one.code === code);
    } finally {
      await query(mend);
    }
  };

  it("knows the names of the whole schema", () => {
    const { tables, indexes, functions } = schemaNames();
    expect(tables).toEqual(expect.arrayContaining(["task", "payload", "pruned", "version"]));
    expect(indexes).toEqual(expect.arrayContaining(["task_due", "log_by_time"]));
    expect(functions).toEqual(
      expect.arrayContaining(["record_many", "record_call", "claim_due", "prune", "examine"]),
    );
  });

  it("finds a missing index and a missing function", async () => {
    const index =
      "create index task_slots on onceward.task (scope, serial) where state = 'running' and (slots is not null or serial is not null)";
    const found = await whileBroken("schema_incomplete", "drop index onceward.task_slots", index);
    expect(found).toMatchObject([{ what: expect.stringContaining("index task_slots") }]);
    const renamed = await whileBroken(
      "schema_incomplete",
      "alter function onceward.wake rename to wake_up",
      "alter function onceward.wake_up rename to wake",
    );
    expect(renamed).toMatchObject([{ what: expect.stringContaining("function wake") }]);
  });

  it("finds what everybody may use", async () => {
    const found = await whileBroken(
      "public",
      "grant execute on function onceward.stats to public",
      "revoke execute on function onceward.stats from public",
    );
    expect(found).toMatchObject([{ what: expect.stringContaining("stats") }]);
  });

  it("finds a table without autovacuum, and a clock that was replaced", async () => {
    const table = await whileBroken(
      "autovacuum",
      "alter table onceward.task set (autovacuum_enabled = off)",
      "alter table onceward.task reset (autovacuum_enabled)",
    );
    expect(table).toHaveLength(1);
    const body = (what: string): string =>
      `create or replace function onceward.now() returns timestamptz language sql volatile parallel safe as 'select ${what}'`;
    const clock = await whileBroken(
      "clock_replaced",
      body("clock_timestamp() + interval ''1 hour''"),
      body("clock_timestamp()"),
    );
    expect(clock).toHaveLength(1);
  });

  it("is content through a role that was granted all, and says what another one lacks", async () => {
    const role = `app_${process.pid}`;
    await query(`create role ${role} login`);
    const url = new URL(fresh().url);
    url.username = role;
    url.password = "";
    try {
      await query(`grant usage on schema onceward to ${role}`);
      await query(`grant select, insert, update, delete on all tables in schema onceward to ${role}`);
      await query(`grant execute on all routines in schema onceward to ${role}`);
      const app = createOnce({ database: url.href, migrate: false });
      try {
        expect(wrongOf(await app.recovery.doctor())).toEqual([]);
        await query(`revoke insert on onceward.effect from ${role}`);
        await query(`revoke execute on function onceward.goodbye from ${role}`);
        const found = await app.recovery.doctor();
        expect(found.find(({ code }) => code === "privileges")?.what).toBe(
          "This role may not execute on goodbye, insert on effect.",
        );
      } finally {
        await app.stop();
      }
    } finally {
      await query(`drop owned by ${role}`);
      await query(`drop role ${role}`);
    }
  });

  it("as a command: says which grants a role lacks that may nothing, and they suffice", async () => {
    const role = `poor_${process.pid}`;
    await query(`create role "${role}" login`);
    const url = new URL(fresh().url);
    url.username = role;
    url.password = "";
    const found = async (...args: string[]): Promise<Finding[]> =>
      (JSON.parse((await doctor(["--database", url.href, "--json", ...args])).out) as { findings: Finding[] })
        .findings;
    try {
      const [lacking] = await found();
      expect(lacking).toMatchObject({
        code: "privileges",
        what: `The role ${role} may not use the schema onceward.`,
      });
      await query(lacking!.todo.replace(/^As its owner: /, ""));
      expect(wrongOf(await found())).toEqual([]);
      const [, making] = await found("--schema", "another");
      expect(making?.todo).toMatch(new RegExp(`grant create on database ".+" to "${role}";$`));
    } finally {
      await query(`drop owned by "${role}"`);
      await query(`drop role "${role}"`);
    }
    url.pathname = "/nowhere";
    url.username = new URL(fresh().url).username;
    url.password = new URL(fresh().url).password;
    expect(await found()).toMatchObject([{ about: "database", code: "refused" }]);
  });

  it("as a command: exit code 2 for what is wrong, with what to do; 0 when all is well", async () => {
    const url = fresh().url;
    const well = await doctor(["--database", url, "--json"]);
    const found = JSON.parse(well.out) as { wrong: number; findings: Finding[] };
    expect(wrongOf(found.findings)).toEqual([]);
    expect(well.code).toBe(found.wrong > 0 ? 2 : 0);

    const empty = await doctor(["--database", url, "--schema", "nothing_here"], {
      STRIPE_WEBHOOK_SECRET: "whsec_...",
    });
    expect(empty.code).toBe(2);
    expect(empty.out).toContain("STRIPE_WEBHOOK_SECRET is a placeholder");
    expect(empty.out).toContain("Run: onceward migrate");
  });

  describe("a pooler", () => {
    beforeEach(needsPgBouncer);
    it.each(["transaction", "session"] as const)("is found in %s mode", async (poolMode) => {
      const bouncer = await startPgBouncer({ upstream: fresh().url, poolMode });
      try {
        expect(await poolerMode(bouncer.url)).toBe(poolMode);
      } finally {
        await bouncer.stop();
      }
    });

    it("is not found where there is none", async () => {
      expect(await poolerMode(fresh().url)).toBe("none");
    });
  });

  describe("with a key for Stripe", () => {
    let api: Server;
    let status = 200;
    beforeAll(async () => {
      api = createServer((_, res) => {
        const data = [
          {
            id: "we_1",
            object: "webhook_endpoint",
            url: "https://shop.example/webhooks/stripe",
            status: "enabled",
            livemode: false,
            enabled_events: ["invoice.paid", "charge.failed"],
          },
          {
            id: "we_2",
            object: "webhook_endpoint",
            url: "https://user:token-a@old.example/hooks/token-b?key=token-c",
            status: "disabled",
            livemode: false,
            enabled_events: ["*"],
          },
        ];
        const body =
          status === 200
            ? { object: "list", data, has_more: false, url: "/v1/webhook_endpoints" }
            : { error: { type: "invalid_request_error", message: "no" } };
        res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      });
      await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
    });
    afterAll(() => void api.close());

    it("compares what is sent with what is handled", async () => {
      const shop = createOnce({ database: fresh().url });
      const billing = shop.source(stripe({ secrets: "whsec_for_the_tests_alone" }));
      billing.on("invoice.paid", () => undefined).on("customer.created", () => undefined);
      const access = {
        apiKey: "sk_test_x",
        apiBase: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
      };
      try {
        const about = async (): Promise<string[]> =>
          (await shop.recovery.doctor({ stripe: access }))
            .filter((one) => one.about === "endpoints")
            .map(({ code, what }) => `${code}: ${what}`);
        expect(await about()).toEqual([
          // Its path, its query and what stands before the host can hold secrets.
          "endpoint_disabled: The endpoint we_2 (old.example) is disabled: Stripe sends nothing there.",
          "types_unhandled: Stripe sends types that stripe has no handler for: charge.failed.",
          "types_not_sent: stripe handles types that no endpoint is subscribed to: customer.created.",
        ]);
        status = 403;
        expect(await about()).toEqual([expect.stringMatching(/^endpoints_unknown: /)]);
      } finally {
        await shop.stop();
      }
    });
  });
});

describe("the doctor, on PGlite", () => {
  it("finds nothing wrong, and names a job whose function is gone", async () => {
    const pglite = await createPglite();
    const folder = mkdtempSync(join(tmpdir(), "onceward-doctor-"));
    const once = createOnce({ database: pglite });
    try {
      await migrate(once.database);
      expect(wrongOf(await once.recovery.doctor({ folder }))).toEqual([]);
      await once.engine.ledger.record({ scope: "job/gone", key: "k" });
      expect(wrongOf(await once.recovery.doctor({ folder }))).toEqual(["no_handler"]);
    } finally {
      await once.stop();
      await pglite.close();
      rmSync(folder, { recursive: true });
    }
  });
});
