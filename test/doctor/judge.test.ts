import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type DatabaseFacts, judgeDatabase } from "../../src/doctor/database.ts";
import { judgeEndpoints } from "../../src/doctor/endpoints.ts";
import { judgeEnvironment } from "../../src/doctor/environment.ts";
import type { Finding } from "../../src/doctor/finding.ts";
import { judgeProofs } from "../../src/doctor/proofs.ts";
import { judgeTasks } from "../../src/doctor/tasks.ts";

const codes = (findings: readonly Finding[]): string[] =>
  findings.map(({ level, code }) => `${level} ${code}`);

const healthy: DatabaseFacts = {
  version: 170_000,
  clock_ms: 0,
  ledger_ahead_ms: 0,
  read_only: false,
  encoding: "UTF8",
  settings: {
    fsync: "on",
    full_page_writes: "on",
    synchronous_commit: "on",
    synchronous_standby_names: "",
    autovacuum: "on",
    track_counts: "on",
    max_connections: "100",
    default_transaction_isolation: "read committed",
  },
  connections: 3,
  standbys: 0,
  oldest_transaction_ms: null,
  missing: [],
  denied: [],
  role: "app",
  schema: "onceward",
  open_to_public: [],
  tables: [{ name: "task", live: 100_000, dead: 5_000, bytes: 1, autovacuum: true }],
  workers: [],
  skewMs: 0,
  embedded: false,
};

describe("the doctor, of a database", () => {
  it("finds nothing wrong with a healthy one", () => {
    expect(judgeDatabase(healthy)).toEqual([]);
  });

  const set = (settings: Record<string, string>): Partial<DatabaseFacts> => ({
    settings: { ...healthy.settings, ...settings },
  });
  const ill: [string, Partial<DatabaseFacts>][] = [
    ["wrong version_old", { version: 140_009 }],
    ["wrong encoding", { encoding: "SQL_ASCII" }],
    ["wrong read_only", { read_only: true }],
    ["wrong isolation", set({ default_transaction_isolation: "repeatable read" })],
    ["wrong clock_skew", { skewMs: -31_000 }],
    ["advice clock_skew", { skewMs: 2_500 }],
    ["wrong clock_replaced", { ledger_ahead_ms: 60_000 }],
    ["wrong fsync", set({ fsync: "off" })],
    ["wrong full_page_writes", set({ full_page_writes: "off" })],
    ["wrong synchronous_commit", set({ synchronous_commit: "off" })],
    ["wrong replication_not_awaited", set({ synchronous_standby_names: "one", synchronous_commit: "local" })],
    ["advice replication_asynchronous", { standbys: 1 }],
    ["wrong autovacuum", set({ autovacuum: "off" })],
    ["wrong autovacuum", { tables: [{ ...healthy.tables[0]!, autovacuum: false }] }],
    ["advice bloat", { tables: [{ ...healthy.tables[0]!, dead: 60_000 }] }],
    ["advice long_transaction", { oldest_transaction_ms: 3_600_000 }],
    ["advice connections", { connections: 97 }],
    ["wrong schema_incomplete", { missing: ["index task_due"] }],
    ["wrong privileges", { denied: ["insert on task"] }],
    ["wrong public", { open_to_public: ["record"] }],
    ["advice embedded", { embedded: true }],
  ];
  it.each(ill)("says %s", (code, facts) => {
    const findings = judgeDatabase({ ...healthy, ...facts });
    expect(codes(findings)).toEqual([code]);
    expect(findings[0]?.todo).not.toBe("");
  });

  it("is content with asynchronous replication where a standby is waited for", () => {
    expect(judgeDatabase({ ...healthy, ...set({ synchronous_standby_names: "one" }), standbys: 1 })).toEqual(
      [],
    );
  });
});

describe("the doctor, of secrets", () => {
  const secret = `whsec_${"a1B2".repeat(8)}`;
  const key = (mode: string): string => `sk_${mode}_${"a1B2".repeat(8)}`;
  const sick: [string, Record<string, string>][] = [
    ["wrong secret_whitespace", { STRIPE_WEBHOOK_SECRET: `${secret}\n` }],
    ["wrong secret_whitespace", { CONNECT_SECRET: ` ${secret}` }],
    ["wrong secret_quoted", { STRIPE_WEBHOOK_SECRET: `"${secret}"` }],
    ["wrong secret_empty", { STRIPE_WEBHOOK_SECRET: "" }],
    ["wrong secret_empty", { STRIPE_WEBHOOK_SECRET: `${secret},` }],
    ["wrong secret_placeholder", { STRIPE_WEBHOOK_SECRET: "whsec_..." }],
    ["wrong secret_placeholder", { STRIPE_WEBHOOK_SECRET: "whsec_your_secret_goes_here_please" }],
    ["wrong secret_placeholder", { STRIPE_SECRET_KEY: "changeme" }],
    ["wrong secret_short", { STRIPE_WEBHOOK_SECRET: "whsec_abc" }],
    ["wrong secret_mistaken", { STRIPE_WEBHOOK_SECRET: key("test") }],
    ["wrong modes_mixed", { STRIPE_SECRET_KEY: key("live"), OTHER: key("test") }],
    ["wrong test_in_production", { NODE_ENV: "production", STRIPE_SECRET_KEY: key("test") }],
    ["advice live_in_development", { STRIPE_SECRET_KEY: key("live") }],
  ];
  it.each(sick)("says %s, and never shows one", (code, env) => {
    const findings = judgeEnvironment({ DATABASE_URL: "postgres://u:password1@h/db", ...env });
    expect(codes(findings)).toContain(code);
    const text = JSON.stringify(findings);
    for (const part of ["a1B2", "password1", "goes_here"]) expect(text).not.toContain(part);
  });

  it("finds nothing wrong with good ones, two of them while one is rolled", () => {
    const env = { STRIPE_WEBHOOK_SECRET: `${secret},${secret}x`, STRIPE_API_KEY: key("test"), PATH: "x" };
    expect(judgeEnvironment(env)).toEqual([]);
    expect(judgeEnvironment({ ...env, STRIPE_API_KEY: key("live"), NODE_ENV: "production" })).toEqual([]);
  });
});

describe("the doctor, of endpoints", () => {
  const endpoint = {
    id: "we_1",
    host: "shop.example",
    enabled: true,
    types: ["invoice.paid", "charge.refunded"],
  };
  const source = "stripe";

  it("names types that are sent and not handled, and handled and not sent", () => {
    const findings = judgeEndpoints([endpoint], {
      source,
      patterns: ["invoice.*", "checkout.session.completed"],
    });
    expect(codes(findings)).toEqual(["advice types_unhandled", "wrong types_not_sent"]);
    expect(findings[0]?.what).toContain("charge.refunded");
    expect(findings[0]?.what).not.toContain("invoice.paid");
    expect(findings[1]?.what).toContain("checkout.session.completed");
  });

  it("says that one is disabled, missing, or subscribed to everything", () => {
    const patterns = ["invoice.paid", "charge.refunded"];
    expect(judgeEndpoints([endpoint], { source, patterns })).toEqual([]);
    expect(codes(judgeEndpoints([{ ...endpoint, types: ["*"] }], { source, patterns }))).toEqual([
      "advice endpoint_everything",
    ]);
    const disabled = judgeEndpoints([{ ...endpoint, enabled: false }], { source, patterns });
    expect(codes(disabled)).toEqual(["wrong endpoint_disabled", "wrong endpoint_missing"]);
    expect(disabled[0]?.what).toContain("we_1 (shop.example)");
  });
});

describe("the doctor, of tasks", () => {
  const waiting = { due: 2, later: 1, running: 0, oldest_due_ms: 5, oldest_running_ms: null };
  const stats = { unfinished: [{ scope: "job/gone", ...waiting }], parked: [] };

  it("names a job that nobody knows", () => {
    const findings = judgeTasks(stats, [{ lanes: ["stripe"], seen_ms: 10 }], () => false);
    expect(codes(findings)).toEqual(["wrong no_handler"]);
    expect(findings[0]).toMatchObject({ what: expect.stringContaining("3 unfinished tasks of job/gone") });
  });

  it("does not miss what runs only where somebody calls it, or inside of serve", () => {
    for (const scope of ["action", "tool/search", "job/onceward-prune"]) {
      const later = { unfinished: [{ scope, ...waiting, due: 0 }], parked: [] };
      expect(judgeTasks(later, [], () => false)).toEqual([]);
    }
  });

  it("is content where this configuration or a worker that was just seen runs it", () => {
    const worker = { lanes: ["job/gone"], seen_ms: 10 };
    expect(judgeTasks(stats, [worker], () => false)).toEqual([]);
    expect(codes(judgeTasks(stats, [], () => true))).toEqual(["advice no_worker"]);
    expect(codes(judgeTasks(stats, [{ ...worker, seen_ms: 600_000 }], () => false))).toEqual([
      "wrong no_handler",
      "advice no_worker",
    ]);
  });
});

describe("the doctor, of handlers", () => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-doctor-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  it("names those that no test proves", () => {
    writeFileSync(join(folder, "package.json"), "{}");
    mkdirSync(join(folder, "src"));
    mkdirSync(join(folder, "test"));
    const text = (type: string): string => `proveHandler({ event: { type: "${type}" } })`;
    writeFileSync(join(folder, "test", "paid.ts"), text("invoice.paid"));
    writeFileSync(join(folder, "src", "customers.test.ts"), text("customer.created"));
    writeFileSync(join(folder, "src", "refunds.ts"), text("charge.refunded"));
    writeFileSync(join(folder, "test", "other.ts"), '"charge.failed", without a proof');
    symlinkSync(join(folder, "nowhere"), join(folder, "test", "gone.test.ts"));
    const handlers = ["invoice.paid", "customer.*", "charge.refunded", "charge.failed", "invoice.pai"].map(
      (pattern) => ({ source: "stripe", name: pattern, pattern }),
    );
    const findings = judgeProofs(handlers, join(folder, "src"));
    expect(codes(findings)).toEqual(["advice handlers_unproven"]);
    expect(findings[0]?.what).toBe(
      "No test proves that these take effect once: stripe charge.refunded, stripe charge.failed, stripe invoice.pai.",
    );
  });
});
