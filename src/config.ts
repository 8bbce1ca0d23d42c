import type { Database } from "./database/database.ts";
import type { Once } from "./once.ts";
import type { Retention } from "./recover/retention.ts";

/** What `onceward.config.ts` exports by default, for the command line. */
export interface Config<Tx = never> {
  readonly once: Once<Tx>;
  /**
   * How long things are kept. `onceward serve` forgets the rest at the times of `cron`, once across all processes;
   * default "17 3 * * *" (UTC). Without this nothing is forgotten by itself.
   */
  readonly retention?: (Retention & { readonly cron?: string | undefined }) | undefined;
  /**
   * `onceward serve` fetches events of Stripe that never arrived, once across all processes, where an API key is
   * given here or in STRIPE_API_KEY. Default: of the source named "stripe", every five minutes. `false`: never.
   */
  readonly backfill?:
    | false
    | {
        readonly source?: string | undefined;
        readonly apiKey?: string | undefined;
        /** Connected accounts whose events are fetched besides those of the key's own account. */
        readonly accounts?: readonly string[] | undefined;
        readonly cron?: string | undefined;
      }
    | undefined;
  /** Runs before the server starts, once the ledger is there: make or migrate your own tables here. */
  setup?(database: Database<Tx>): Promise<void>;
  /**
   * For `onceward storm`: which effects took place for objects whose id holds the tag, by kind of effect, the id of
   * its object once for each. Served at /storm on loopback, outside of production.
   */
  effects?(database: Database<Tx>, tag: string): Promise<Record<string, readonly string[]>>;
}

/** Types for `onceward.config.ts`. */
export function defineConfig<Tx>(config: Config<Tx>): Config<Tx> {
  return config;
}
