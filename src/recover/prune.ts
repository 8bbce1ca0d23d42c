import { setTimeout as sleep } from "node:timers/promises";
import type { Prunable } from "../ledger/prune.ts";
import type { Engine } from "../worker/engine.ts";
import { pruneRules, type Retention } from "./retention.ts";

export interface PruneRequest {
  readonly retention?: Retention | undefined;
  /** Only payloads, steps and keys of this lane: a source, `job/<name>`, or any scope and what is below it. */
  readonly lane?: string | undefined;
  /** Only count what would go. */
  readonly dryRun?: boolean | undefined;
  /** Rows that one statement looks at. Default 500: some milliseconds each, so that nobody waits for long. */
  readonly batch?: number | undefined;
  /** Who wants it and why, for the audit. Left out where no person does, such as on a schedule. */
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  /** Stops after the present batch; the next round goes on from the beginning. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((pruned: Pruned) => void) | undefined;
}

/** How much of each kind has gone, or would go. */
export type Pruned = Readonly<Record<Prunable, number>>;

/** The pause after a batch is as long as the batch took: live traffic has half of the time for itself, at least. */
const longestPauseMs = 1_000;

/** Forgets what is older than the retention says, in small batches, until everything was looked at once. */
export async function prune(engine: Engine, request: PruneRequest = {}): Promise<Pruned> {
  const { dryRun, batch = 500, actor, reason, signal, onProgress } = request;
  const rules = pruneRules(request.retention, request.lane);
  const pruned = { payloads: 0, steps: 0, keys: 0, log: 0, audit: 0, moves: 0, effects: 0 };
  await engine.ready();
  const { verbs } = engine.ledger;
  for (const rule of rules) {
    let after: string | null = null;
    do {
      if (signal?.aborted) return pruned;
      const began = performance.now();
      const done: { pruned: number; after: string | null } = await verbs.prune({
        ...rule,
        after,
        max: batch,
        dryRun,
        actor,
        reason,
      });
      after = done.after;
      pruned[rule.what] += done.pruned;
      onProgress?.(pruned);
      if (after !== null) await sleep(Math.min(performance.now() - began, longestPauseMs));
    } while (after !== null);
  }
  return pruned;
}
