/** Bounds, not competitors. */
import { secret } from "../event.ts";
import type { Running, Variant } from "../variant.ts";
import { hasPgbench } from "../workloads/limits.ts";

const none = async (): Promise<Running> => {
  throw new Error("measured by workloads/limits.ts");
};

/** node:http, HMAC, JSON.parse, answer: a receiver that forgets everything. */
export const http: Variant = {
  title: "no database: node:http, HMAC, JSON.parse",
  kind: "limit",
  store: "none",
  modes: ["receive"],
  notes: "The bound of every receiver in Node: reads, verifies, parses, answers, keeps nothing.",
  open: async () => ({
    // Undefined, not a promise: it waits for nothing.
    enqueue: () => undefined as unknown as Promise<unknown>,
    unfinished: async () => 0,
    close: async () => undefined,
  }),
};

/** Onceward's own endpoint, with nothing behind it: what the ledger costs is the difference to this. */
export const endpoint: Variant = {
  title: "Onceward without its database",
  kind: "limit",
  store: "none",
  modes: ["receive"],
  notes: "The same server: it reads, verifies, identifies and answers; nothing is recorded.",
  async open() {
    const [{ createReceiver }, { nodeHandler }, { stripe }] = await Promise.all([
      import("../../src/receive/receiver.ts"),
      import("../../src/receive/node.ts"),
      import("../../src/source/stripe.ts"),
    ]);
    const receiver = createReceiver({
      source: stripe({ secrets: [secret] }),
      maxBytes: 1024 * 1024,
      take: async ({ id }) => ({ outcome: "accepted", scope: "stripe", key: id }),
    });
    return {
      enqueue: none,
      listener: nodeHandler(receiver),
      unfinished: async () => 0,
      close: async () => undefined,
    };
  },
};

function postgres(title: string, notes: string): Variant {
  return {
    title,
    kind: "limit",
    store: "postgres",
    modes: [],
    notes,
    missing: () => (hasPgbench() || title.includes("COPY") ? undefined : "no pgbench on this machine"),
    open: none,
  };
}

export const insert = postgres(
  "pgbench: one insert a commit",
  "64 connections of pgbench, a table of id and payload, nothing else.",
);
export const insertMany = postgres(
  "pgbench: 100 inserts a commit",
  "2 connections of pgbench; the payload crosses the wire once a statement.",
);
export const copy = postgres("COPY from a file", "One COPY of 20,000 rows, read by the server itself.");
