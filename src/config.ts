import type { Database } from "./database/database.ts";
import type { Once } from "./once.ts";

/** What `onceward.config.ts` exports by default, for the command line. */
export interface Config<Tx = never> {
  readonly once: Once<Tx>;
  /** Runs before the server starts, once the ledger is there: make or migrate your own tables here. */
  setup?(database: Database<Tx>): Promise<void>;
}

/** Types for `onceward.config.ts`. */
export function defineConfig<Tx>(config: Config<Tx>): Config<Tx> {
  return config;
}
