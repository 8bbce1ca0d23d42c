import type { Engine } from "../worker/engine.ts";
import { schemaNames } from "./schema.ts";

/** Facts about a database and the ledger in it; sql/014_examine.sql says what each is. */
export interface Examination {
  readonly version: number;
  readonly clock_ms: number;
  readonly ledger_ahead_ms: number;
  readonly read_only: boolean;
  readonly encoding: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly standbys: number;
  readonly oldest_transaction_ms: number | null;
  readonly missing: readonly string[];
  readonly denied: readonly string[];
  readonly open_to_public: readonly string[];
  readonly tables: readonly {
    readonly name: string;
    readonly live: number;
    readonly dead: number;
    readonly bytes: number;
    readonly autovacuum: boolean;
  }[];
  readonly workers: readonly { readonly lanes: readonly string[]; readonly seen_ms: number }[];
}

/** The facts, with how far this machine's clock is ahead of the database's. */
export async function examine(engine: Engine): Promise<Examination & { readonly skewMs: number }> {
  const { tables, indexes, functions } = schemaNames();
  const began = Date.now();
  const facts = await engine.ledger.verbs.call<Examination>("examine", [tables, indexes, functions]);
  const ended = Date.now();
  // It was asked somewhere between; what that leaves open is not counted as a difference.
  const skewMs =
    facts.clock_ms < began ? began - facts.clock_ms : facts.clock_ms > ended ? ended - facts.clock_ms : 0;
  return { ...facts, skewMs };
}
