import type { LedgerStats } from "../ledger/verbs.ts";
import type { Engine } from "../worker/engine.ts";

export type Status = LedgerStats;

export async function readStatus(engine: Engine): Promise<Status> {
  await engine.ready();
  return engine.ledger.verbs.stats();
}
