import type { ConnectedSource } from "../handler/source.ts";
import type { Engine } from "../worker/engine.ts";
import { readStatus, type Status } from "./status.ts";

/** For whoever is on call: what is stuck and why, and how it moves again. The same calls as the commands of `onceward`. */
export interface Recovery {
  /** What waits, runs and is parked, by scope. */
  status(): Promise<Status>;
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
  };
}
