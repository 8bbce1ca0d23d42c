import { OncewardError } from "../errors.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import { causeOf } from "../ledger/argument.ts";
import type { Newer } from "../ledger/newer.ts";
import type { Verbs } from "../ledger/verbs.ts";
import type { ApplyIfNewer, Version } from "./handler.ts";

/**
 * How often a tie is fetched again because another event of the same object was applied in between. Each time
 * that other one has made progress; who is that unlucky tries again after a backoff.
 */
const maxRounds = 10;

/** Thrown inside a transaction to end it without effect: the sender has to be asked first, and not in there. */
export class Tie extends Error {
  readonly revision: number;
  constructor(revision: number) {
    super("two versions of an object tie");
    this.revision = revision;
  }
}

/** The version guard of one run: an object's identity, and what is known of the state to apply. */
export interface Guard {
  /**
   * Inside the transaction: the state to apply, or undefined where a newer one was applied already.
   * Throws `Tie`.
   */
  latest(verbs: Verbs): Promise<{ readonly state: unknown } | undefined>;
}

/**
 * Runs `attempt` with a guard, and again with the object as it is now where there was a tie. What was fetched
 * counts only if nothing was applied since before it was asked for.
 */
export async function withGuard<T>(
  rule: ApplyIfNewer<unknown, unknown>,
  of: {
    readonly scope: string;
    readonly event: unknown;
    readonly cause: TaskIdentity;
    readonly signal: AbortSignal;
  },
  attempt: (guard: Guard) => Promise<T>,
): Promise<T> {
  const { event } = of;
  const version = rule.version?.(event);
  const newer: Newer = {
    scope: of.scope,
    key: rule.id(event),
    version: version === undefined ? undefined : versionText(version),
    final: rule.final?.(event) ?? false,
    cause: of.cause,
  };
  let state = rule.object(event);
  let revision: number | undefined;
  for (let round = 0; round < maxRounds; round++) {
    try {
      return await attempt({ latest: (verbs) => latest(verbs, { ...newer, revision }, rule, () => state) });
    } catch (error) {
      if (!(error instanceof Tie) || rule.refetch === "none") throw error;
      revision = error.revision;
      state = await rule.refetch(event, { signal: of.signal });
    }
  }
  throw new OncewardError(
    "already_running",
    `Other events of the same object were applied ${maxRounds} times while its present state was fetched.`,
  );
}

async function latest(
  verbs: Verbs,
  newer: Newer,
  rule: ApplyIfNewer<unknown, unknown>,
  state: () => unknown,
): Promise<{ readonly state: unknown } | undefined> {
  const { verdict, revision, cause } = await verbs.newer(newer);
  if (verdict === "apply") return { state: state() };
  if (verdict === "stale") return undefined;
  if (rule.refetch !== "none") throw new Tie(revision);
  // A replay of the very event that was applied last.
  if (cause !== causeOf(newer.cause)) return undefined;
  await verbs.newer({ ...newer, revision });
  return { state: state() };
}

function versionText(version: Version): string {
  if (version instanceof Date && !Number.isNaN(version.getTime())) return version.toISOString();
  if (typeof version === "number" && Number.isFinite(version) && Math.abs(version) < 1e21)
    return String(version);
  if (typeof version === "bigint" || (typeof version === "string" && version !== "")) return String(version);
  throw new OncewardError(
    "value_invalid",
    "applyIfNewer: a version is a number, a text that is not empty, or a Date.",
  );
}
