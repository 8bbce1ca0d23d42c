/** Fetches events of Stripe that never arrived, and has them run as if they had. */
import { milliseconds } from "../../duration.ts";
import { OncewardError } from "../../errors.ts";
import type { AnswerMode } from "../../handler/handler.ts";
import type { ConnectedSource } from "../../handler/source.ts";
import type { By, RecoveryContext } from "../context.ts";
import { Cursor, type Walk } from "./cursor.ts";
import { type Endpoint, StripeApi, type StripeApiOptions, UnknownPosition } from "./stripe-api.ts";
import { takeUntilSettled } from "./take.ts";

export interface BackfillOptions {
  /** The name of the source. Default "stripe". */
  readonly source?: string | undefined;
  /** A secret key, or a restricted one that may read events (and webhook endpoints, to watch them). */
  readonly apiKey: string;
  /** Where Stripe's API is. */
  readonly apiBase?: string | undefined;
  /** Of a connected account; left out: the account of the key itself. */
  readonly account?: string | undefined;
  /** Only events that Stripe could not deliver to each of its endpoints, or not yet. */
  readonly failedOnly?: boolean | undefined;
  /**
   * Look at least so far back. Left out: from where the last one ended, less the overlap; the first one begins where
   * this ledger began, since what came before was handled by somebody else.
   */
  readonly since?: Date | undefined;
  /** How far the walks overlap: events may appear late in the list. Milliseconds, or text. Default "15 minutes". */
  readonly overlap?: number | string | undefined;
  /** What is younger is left to its delivery, which may be under way. Default "1 minute". */
  readonly settle?: number | string | undefined;
  /** Also types that nobody handles: kept, and run when a handler exists and somebody replays them. */
  readonly allTypes?: boolean | undefined;
  readonly onProgress?: ((report: BackfillReport) => void) | undefined;
  /** The person who asked for it, for the audit. Left out on a schedule. */
  readonly by?: By | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface BackfillReport {
  readonly source: string;
  readonly account?: string | undefined;
  /** What was looked through, as ISO 8601. `upTo` is set once everything is there. */
  readonly from?: string | undefined;
  readonly upTo?: string | undefined;
  /** Events that Stripe listed. */
  readonly listed: number;
  readonly known: number;
  /** Were missing, and are recorded now. */
  readonly missing: number;
  /** Of these: Stripe is still trying to deliver them. */
  readonly pending: number;
  /** Of these, where no worker runs them but the backfill itself: a handler failed. */
  readonly failed: number;
  /** Of these, likewise: they still wait, since nobody had room, or somebody else holds them. */
  readonly busy: number;
  /** Of types that nobody handles; left alone. */
  readonly unhandled: number;
  /** Could not be taken: of the other mode, unreadable, or known with other content. */
  readonly refused: number;
  /** Events from before this time are out of reach, and nobody has looked at them. */
  readonly outOfReach?: string | undefined;
  /** Another backfill has taken over the same walk. */
  readonly takenOver: boolean;
  /** Stripe's endpoints that are disabled; undefined where the key may not see them. */
  readonly disabled?: readonly Pick<Endpoint, "id" | "host">[] | undefined;
  /** Types that have a handler and that no enabled endpoint asks for. */
  readonly unsubscribed?: readonly string[] | undefined;
  readonly sentence: string;
}

type Counted = "listed" | "known" | "missing" | "pending" | "failed" | "busy" | "unhandled" | "refused";
type Counts = { -readonly [Name in Counted]: number };
type AnySource = ConnectedSource<Record<string, unknown>, unknown>;

/** Stripe keeps events for 30 days. */
const keptSeconds = 30 * 24 * 3600;
/** An hour less, so that a walk does not lose its beginning under its feet. */
const horizonSeconds = keptSeconds - 3600;
const defaultOverlap = "15 minutes";
const defaultSettle = "1 minute";
/** The most that Stripe filters by. */
const maxTypes = 20;
/** Events of a page that are taken at once; never more than there are places for handlers, so that none waits for one. */
const takenAtOnce = 5;

export async function backfill(context: RecoveryContext, options: BackfillOptions): Promise<BackfillReport> {
  const { apiKey, apiBase } = options;
  if (!/^(sk|rk)_/.test(apiKey))
    throw new OncewardError("config_invalid", "Stripe's API key begins with sk_ or rk_. Set STRIPE_API_KEY.");
  return backfillThrough(
    context,
    await StripeApi.open({ apiKey, base: apiBase } satisfies StripeApiOptions),
    options,
  );
}

/** The same, through a client that is there already. */
export async function backfillThrough(
  { engine, sources }: RecoveryContext,
  api: StripeApi,
  options: BackfillOptions,
): Promise<BackfillReport> {
  const { source: name = "stripe", account, failedOnly = false, signal, onProgress } = options;
  const source = sources.get(name);
  if (!source) {
    throw new OncewardError(
      "config_invalid",
      `There is no source named ${name}, so that nobody could run what is fetched. Name one of: ${[...sources.keys()].join(", ") || "none"}.`,
    );
  }
  await engine.ready();
  const { verbs } = engine.ledger;
  const cursor = new Cursor(verbs, cursorName(name, options), name);
  const answer: AnswerMode | undefined = (await verbs.call<boolean>("attended", [name]))
    ? "queued"
    : undefined;
  const counts: Counts = {
    listed: 0,
    known: 0,
    missing: 0,
    pending: 0,
    failed: 0,
    busy: 0,
    unhandled: 0,
    refused: 0,
  };
  let from: number | undefined;
  let outOfReach: number | undefined;
  let takenOver = false;
  const report = (rest: Partial<BackfillReport> = {}): BackfillReport => {
    const told = {
      source: name,
      account,
      from: iso(from),
      upTo: takenOver ? undefined : iso(cursor.position.walk ? undefined : cursor.position.upTo),
      ...counts,
      outOfReach: iso(outOfReach),
      takenOver,
      ...rest,
    };
    return { ...told, sentence: sentence(told) };
  };

  /** One page after the other, back in time; the position moves when the page is recorded. */
  const walkDown = async (walk: Walk): Promise<void> => {
    let { after } = walk;
    const query = {
      from: walk.from,
      to: walk.to,
      types: typesToAsk(source, options),
      undelivered: failedOnly,
      account,
    };
    for (;;) {
      signal?.throwIfAborted();
      const page = await api.events({ ...query, after });
      await takePage(source, page.texts, counts);
      const last = page.texts.at(-1);
      if (page.more && last !== undefined) {
        after = idOf(last);
        takenOver = !(await cursor.move({ ...cursor.position, walk: { ...walk, after } }));
      } else {
        takenOver = !(await cursor.move({ upTo: Math.max(walk.to, cursor.position.upTo ?? 0) }));
      }
      onProgress?.(report());
      if (takenOver || !page.more || last === undefined) return;
    }
  };

  const takePage = async (of: AnySource, texts: readonly string[], into: Counts): Promise<void> => {
    into.listed += texts.length;
    // The oldest first, as they would have come.
    const found = texts.toReversed().flatMap((text) => {
      const body = Buffer.from(text);
      try {
        const identity = of.identify(body, { account });
        if (options.allTypes || of.handles(identity.type)) return [{ ...identity, body, text }];
        into.unhandled++;
      } catch (error) {
        if (!(error instanceof OncewardError)) throw error;
        into.refused++;
      }
      return [];
    });
    if (found.length === 0) return;
    const known = await verbs.call<boolean[]>("known", [
      found.map(({ scope }) => scope),
      found.map(({ key }) => key),
    ]);
    into.known += known.filter(Boolean).length;
    const missing = found.filter((_, i) => !known[i]);
    const atOnce = Math.min(takenAtOnce, engine.laneOf(name)?.concurrency ?? 1);
    // Whoever died with one of them has lost it when a lease is over.
    const how = { account, origin: "backfill", answer, patienceMs: engine.ledger.leaseMs, signal } as const;
    for (let i = 0; i < missing.length; i += atOnce) {
      await Promise.all(
        missing.slice(i, i + atOnce).map(async ({ body, text }) => {
          const { first, last } = await takeUntilSettled(of, body, how);
          // It has come by itself meanwhile.
          if (first === "duplicate") into.known++;
          else if (first === "conflict") into.refused++;
          else {
            into.missing++;
            if (isPending(text)) into.pending++;
            if (last === "failed") into.failed++;
            if (last === "busy") into.busy++;
          }
        }),
      );
    }
  };

  /** All is there up to `complete`; between that and Stripe's reach there may be what nobody can fetch any more. */
  const noteReach = (complete: number | undefined, reach: number): void => {
    if (complete !== undefined && complete < reach) outOfReach = Math.max(reach, outOfReach ?? 0);
  };

  /** What is not known to be complete, up to a moment ago. */
  const nextWalk = (): Walk => {
    const { now, began, position } = cursor;
    const to = now - seconds(options.settle ?? defaultSettle);
    const next =
      position.upTo === undefined
        ? (began ?? to)
        : position.upTo - seconds(options.overlap ?? defaultOverlap);
    const wanted = Math.min(
      next,
      options.since === undefined ? next : Math.floor(options.since.getTime() / 1_000),
    );
    const reach = now - horizonSeconds;
    // Who asks for more than Stripe has knows that it is more; where the ledger stands is nobody's wish.
    noteReach(position.upTo ?? (options.since === undefined ? began : undefined), reach);
    return { from: Math.max(wanted, reach), to: Math.max(to, position.upTo ?? 0) };
  };

  // What an earlier process left unfinished comes first; then what has happened since.
  for (let resumed = true; resumed && !takenOver;) {
    await cursor.read();
    const { walk: unfinished, upTo } = cursor.position;
    resumed = unfinished !== undefined;
    // It may have lain still for so long that Stripe has forgotten where it was to end.
    if (unfinished) noteReach(upTo ?? unfinished.from, cursor.now - keptSeconds);
    const walk = unfinished ?? nextWalk();
    from = Math.min(walk.from, from ?? walk.from);
    takenOver = !(await cursor.move({ ...cursor.position, walk }));
    if (takenOver) break;
    try {
      await walkDown(walk);
    } catch (error) {
      // It lay still for so long that Stripe has forgotten where it stood: from its end again, as far as Stripe reaches.
      if (!(error instanceof UnknownPosition)) throw error;
      const { from: first, to } = walk;
      const reach = cursor.now - horizonSeconds;
      noteReach(cursor.position.upTo ?? first, reach);
      takenOver = !(await cursor.move({
        ...cursor.position,
        walk: { from: Math.max(first, reach), to },
      }));
      resumed = true;
    }
  }
  if (counts.missing > 0 && answer === "queued") await verbs.wake([name]);
  const ended = report(account === undefined ? await health(api, source) : {});
  if (options.by) {
    const { actor, reason } = options.by;
    await verbs.call("backfilled", [actor, name, reason, ended.sentence]);
  }
  return ended;
}

/** A backfill of other events has a position of its own. The mode is that of the key. */
function cursorName(source: string, { account, failedOnly, apiKey }: BackfillOptions): string {
  const parts = [source, account, /^.k_test_/.test(apiKey) ? "test" : undefined].filter(Boolean);
  return `backfill ${parts.join("/")}${failedOnly ? " failed" : ""}`;
}

function patternsOf(source: AnySource): readonly string[] {
  return [...new Set(source.handlers.map(({ pattern }) => pattern))];
}

/** Stripe filters where it can; else what nobody handles is passed over here. */
function typesToAsk(source: AnySource, { allTypes }: BackfillOptions): readonly string[] | undefined {
  const patterns = patternsOf(source).filter(
    (pattern) => !pattern.startsWith("v1.") && !pattern.startsWith("v2."),
  );
  const exact = patterns.every((pattern) => !pattern.includes("*"));
  return !allTypes && exact && patterns.length > 0 && patterns.length <= maxTypes ? patterns : undefined;
}

async function health(
  api: StripeApi,
  source: AnySource,
): Promise<Pick<BackfillReport, "disabled" | "unsubscribed">> {
  const endpoints = await api.endpoints();
  if (!endpoints) return {};
  const asked = new Set(endpoints.filter(({ enabled }) => enabled).flatMap(({ types }) => types));
  const handled = patternsOf(source).filter((pattern) => !pattern.includes("*"));
  return {
    disabled: endpoints.filter(({ enabled }) => !enabled).map(({ id, host }) => ({ id, host })),
    unsubscribed: endpoints.length === 0 || asked.has("*") ? [] : handled.filter((type) => !asked.has(type)),
  };
}

function sentence(report: Omit<BackfillReport, "sentence">): string {
  const { missing, failed, busy, upTo, takenOver, outOfReach, refused, disabled = [] } = report;
  const said = [
    missing === 0
      ? "nothing missing"
      : `${missing} ${missing === 1 ? "event was" : "events were"} missing, and recorded now,`,
  ];
  if (upTo !== undefined) said.push(`up to ${upTo.replace("T", " ").replace(".000", "")}`);
  else said.push(takenOver ? "so far; another backfill goes on with it" : "so far");
  const rest = [
    outOfReach === undefined ? "" : `what happened before ${outOfReach} is out of Stripe's reach`,
    refused === 0 ? "" : `${refused} could not be taken`,
    failed === 0 ? "" : `${failed} of them failed, and wait for a worker or a replay`,
    busy === 0 ? "" : `${busy} of them did not get to run, and wait for a worker`,
    ...disabled.map(
      ({ id, host }) => `the endpoint ${id} at ${host} is disabled, so that Stripe sends nothing there`,
    ),
  ].filter((text) => text !== "");
  return [said.join(" "), ...rest].join("; ");
}

function idOf(text: string): string {
  return (JSON.parse(text) as { id: string }).id;
}

function isPending(text: string): boolean {
  return ((JSON.parse(text) as { pending_webhooks?: number }).pending_webhooks ?? 0) > 0;
}

function seconds(duration: number | string): number {
  return Math.ceil(milliseconds(duration) / 1_000);
}

function iso(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time * 1_000).toISOString();
}
