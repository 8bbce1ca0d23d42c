import type { ConnectedSource } from "../handler/source.ts";
import type { Engine } from "../worker/engine.ts";
import { prune, type Pruned, type PruneRequest } from "./prune.ts";
import { readStatus, type Status } from "./status.ts";

/** For whoever is on call: what is stuck and why, and how it moves again. The same calls as the commands of `onceward`. */
export interface Recovery {
  /** What waits, runs and is parked, by scope. */
  status(): Promise<Status>;
  /** Forgets what is finished and older than the retention says, in small batches beside live traffic. */
  prune(request?: PruneRequest): Promise<Pruned>;
}

/** What the calls of recovery work with. */
export interface RecoveryContext {
  readonly engine: Engine;
  readonly sources: ReadonlyMap<string, ConnectedSource<Record<string, unknown>, unknown>>;
}

/** One line a call; each is in a file of its own in this folder. */
export function createRecovery(context: RecoveryContext): Recovery {
  const { engine } = context;
  return {
    status: () => readStatus(engine),
    prune: (request) => prune(engine, request),
  };
}
