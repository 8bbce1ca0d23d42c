import { engineOn, type TestEngine } from "../worker/support.ts";
import type { Engine, EngineOptions } from "../../src/worker/engine.ts";
import type { PgClient } from "../../src/database/pg.ts";

/** An engine on which jobs are defined before it starts. */
export interface JobEngine extends TestEngine {
  readonly engine: Engine<PgClient>;
}

export function jobEngine(url: string, options: EngineOptions & { listen?: false } = {}): JobEngine {
  return engineOn(url, [], { pollMs: 50, ...options }) as unknown as JobEngine;
}
