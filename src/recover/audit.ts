import type { Engine } from "../worker/engine.ts";
import type { Audited } from "./story.ts";

export interface AuditFilter {
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  readonly actor?: string | undefined;
  /** `replayed`, `replayed again`, `replay begun`, `replay ended`, `cancelled`, `resolved`, `signal`, … */
  readonly what?: string | undefined;
  readonly scope?: string | undefined;
  readonly key?: string | undefined;
  readonly max?: number | undefined;
}

export async function readAudit(engine: Engine, filter: AuditFilter = {}): Promise<readonly Audited[]> {
  const { since, until, actor, what, scope, key, max = 100 } = filter;
  await engine.ready();
  return engine.ledger.verbs.call("audit", [
    since?.toISOString(),
    until?.toISOString(),
    actor,
    what,
    scope,
    key,
    String(max),
  ]);
}
