/**
 * The application that faults are tried on: `onceward serve` runs it, as a server (its events) or as a worker
 * (its job). Each event and each job has one effect, a row in a table that allows doubles on purpose.
 */
import { createOnce, defineConfig, type JobTools, type Transaction } from "onceward";
import { pgDatabase } from "onceward/pg";
import { stripe } from "onceward/stripe";

// Whoever started this is gone.
process.once("disconnect", () => process.exit());

const naive = process.env["FAULTS_NAIVE"] === "1";
const role = process.env["FAULTS_ROLE"] ?? "server";
/** Tried again soon, so that a run measures the recovery and not the pauses between attempts. */
const attempts = {
  maxAttempts: 1_000,
  backoff: { baseMs: 50, capMs: 500 },
  // Ends an attempt whose own statement has no answer; no shorter than others need on a busy machine.
  deadline: Number(process.env["FAULTS_TIMEOUT_MS"] ?? 30_000) * 2,
};

const once = createOnce({
  database: pgDatabase(process.env["DATABASE_URL"]!, {
    // Behind a pooler, where LISTEN is silent, a direct one; as one would set it up.
    listen: process.env["FAULTS_DIRECT_URL"] ?? process.env["DATABASE_URL"]!,
    answerTimeoutMs: Number(process.env["FAULTS_TIMEOUT_MS"] ?? 30_000),
    idleTransactionTimeoutMs: Number(process.env["FAULTS_TIMEOUT_MS"] ?? 300_000),
  }),
  leaseMs: Number(process.env["FAULTS_LEASE_MS"] ?? 2_000),
  pollMs: 100,
  concurrency: 16,
});

if (role === "server") {
  // Clocks of servers are set wrong on purpose by hours; how old a signature may be is tested elsewhere.
  const billing = once.source(stripe({ secrets: "whsec_of_the_faults", tolerance: 30 * 86_400 }));
  // One is answered once it is recorded, the other once it is done.
  for (const [type, answer] of [
    ["invoice.paid", "queued"],
    ["charge.succeeded", "inline"],
  ] as const) {
    billing.on(type, { answer, ...attempts }, async ({ event, tx, enqueue }) => {
      // As people write it by hand: beside the transaction, and after it. `npm run faults -- --naive` shows what becomes of it.
      await (naive ? once.database : tx).query("insert into effect (what, id) values ('event', $1)", [
        event.id,
      ]);
      if (naive)
        setImmediate(() => void once.enqueue({ name: "follow-up" }, { event: event.id }).catch(() => {}));
      else await enqueue({ name: "follow-up" }, { event: event.id });
    });
  }
} else {
  once.job(
    "follow-up",
    attempts,
    async ({ input, step }: JobTools<{ readonly event: string }, Transaction>) => {
      await step.transaction("write", async (tx) => {
        await tx.query("insert into effect (what, id) values ('job', $1)", [input.event]);
      });
    },
  );
}

export default defineConfig({ once });
