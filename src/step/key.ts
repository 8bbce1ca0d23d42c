import { createHash } from "node:crypto";
import type { TaskIdentity } from "../ledger/task.ts";

/**
 * The key of a step: the same in all attempts of one generation of its task, another for everything else.
 * 32 letters, digits, '-' and '_': fit for an Idempotency-Key (Stripe: at most 255 characters), a
 * Message-ID, a file name. 192 bits of SHA-256 over the parts with a NUL between them, which none can hold.
 */
export function stepKey(task: TaskIdentity & { readonly generation: number }, name: string): string {
  const parts = [task.scope, task.key, String(task.generation), name];
  return createHash("sha256").update(parts.join("\0")).digest("base64url").slice(0, 32);
}
