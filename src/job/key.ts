import { createHash, randomBytes } from "node:crypto";
import type { TaskIdentity } from "../ledger/task.ts";

/** Random bytes of many keys at once: asking the system for each takes longer than the rest of an enqueue. */
const pool = { bytes: Buffer.alloc(0), at: 0 };

/**
 * A key for a task that nobody named: 12 hex digits of the time in ms and 20 random ones (80 bits). What is
 * recorded together stands together in the index, so that it stays in memory however many rows there are.
 */
export function newKey(): string {
  if (pool.at >= pool.bytes.length) {
    pool.bytes = randomBytes(1_000);
    pool.at = 0;
  }
  const random = pool.bytes.toString("hex", pool.at, (pool.at += 10));
  return Date.now().toString(16).padStart(12, "0") + random;
}

export interface Child {
  readonly scope: string;
  readonly body: string;
  /** When it may run, as it was asked for. */
  readonly when: string;
}

/**
 * The key of what a task enqueues without naming it: the same whenever the same generation of the parent
 * enqueues the same. Not by the order of calls, which differs between attempts when the data have changed in
 * between: then one child would be lost and another doubled.
 */
export function childKey(parent: TaskIdentity & { readonly generation: number }, child: Child): string {
  const parts = [parent.scope, parent.key, parent.generation, child.scope, child.when, child.body];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 32);
}
