import type { ConnectedSource } from "../handler/source.ts";
import { OncewardError } from "../errors.ts";
import type { Engine } from "../worker/engine.ts";

/** What the calls of recovery work with. */
export interface RecoveryContext {
  readonly engine: Engine;
  readonly sources: ReadonlyMap<string, ConnectedSource<Record<string, unknown>, unknown>>;
}

/** Who changes something, and why: kept in the audit table. */
export interface By {
  readonly actor: string;
  readonly reason?: string | undefined;
}

export function checkBy({ actor }: By): void {
  if (typeof actor !== "string" || actor.trim() === "")
    throw new OncewardError("value_invalid", "Say who does it: `actor` is a name, for the audit table.");
}
