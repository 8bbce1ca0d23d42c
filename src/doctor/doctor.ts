import type { RecoveryContext } from "../recover/context.ts";
import { examine } from "./examination.ts";
import { judgeDatabase } from "./database.ts";
import type { Finding } from "./finding.ts";
import { judgePooler, poolerMode } from "./pooler.ts";
import { judgeProofs } from "./proofs.ts";
import { whoAmI } from "./refusal.ts";
import { judgeSources } from "./sources.ts";
import { examineEndpoints, type StripeAccess } from "./stripe-endpoints.ts";
import { judgeTasks } from "./tasks.ts";

export interface DoctorRequest {
  /** The project's folder: its tests are searched for proofs of handlers. Left out: not searched. */
  readonly folder?: string | undefined;
  /** A connection URL of this database, to find out whether a pooler stands before it. */
  readonly url?: string | undefined;
  /** To ask Stripe which types it sends. */
  readonly stripe?: StripeAccess | undefined;
}

/** Looks at the database, the ledger, what waits in it, the handlers and the sender's endpoints. */
export async function examineAll(
  { engine, sources }: RecoveryContext,
  { folder, url, stripe }: DoctorRequest = {},
): Promise<Finding[]> {
  const facts = await examine(engine);
  const { role } = await whoAmI(engine.database);
  const { schema } = engine.ledger;
  const embedded = ["embedded", "pglite"].includes(engine.database.name);
  const configured = sources.size > 0 || folder !== undefined;
  const runsHere = configured ? (scope: string) => engine.laneOf(scope) !== undefined : undefined;
  const handlers = [...sources.values()].flatMap(({ name: source, handlers: own }) =>
    own.filter(({ pattern }) => pattern !== "*").map((handler) => ({ source, ...handler })),
  );
  const billing = sources.get("stripe");
  return [
    ...judgeDatabase({ ...facts, embedded, role, schema }),
    ...(url === undefined ? [] : judgePooler(await poolerMode(url))),
    ...judgeTasks(await engine.ledger.verbs.stats(), facts.workers, runsHere),
    ...judgeSources(sources.values()),
    ...(folder === undefined ? [] : judgeProofs(handlers, folder)),
    ...(stripe && billing
      ? await examineEndpoints(stripe, {
          source: billing.name,
          patterns: billing.handlers.map(({ pattern }) => pattern),
        })
      : []),
  ];
}
