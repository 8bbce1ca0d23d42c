import { Failure } from "../fail.ts";
import type { StormEvent } from "./events.ts";

/** What a store says of a storm: ids of objects, one for each effect that took place. */
export interface Effects {
  readonly recorded: number;
  /** Tasks that are not finished yet. */
  readonly unfinished: number;
  readonly effects: Readonly<Record<string, readonly string[]>>;
}

/** Which effects an event must have, once for its object. */
const expected: Record<string, readonly string[]> = {
  "checkout.session.completed": ["orders", "mails"],
  "checkout.session.async_payment_succeeded": ["orders", "mails"],
  "invoice.paid": ["credits"],
  "invoice.payment_succeeded": ["credits"],
};

export interface Verdict {
  readonly recorded: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly doubled: readonly string[];
  readonly lost: readonly string[];
}

export function judge(events: readonly StormEvent[], { recorded, effects }: Effects): Verdict {
  const wanted = new Set(
    events.flatMap(({ type, objectId }) => (expected[type] ?? []).map((effect) => `${effect} ${objectId}`)),
  );
  const seen = new Map<string, number>();
  for (const [effect, ids] of Object.entries(effects)) {
    for (const id of ids) seen.set(`${effect} ${id}`, (seen.get(`${effect} ${id}`) ?? 0) + 1);
  }
  return {
    recorded,
    counts: Object.fromEntries(Object.entries(effects).map(([effect, ids]) => [effect, ids.length])),
    doubled: [...seen].filter(([, times]) => times > 1).map(([name]) => name),
    lost: [...wanted].filter((name) => !seen.has(name)),
  };
}

/** How long the last effects may take; a worker that was killed holds its task for a lease of a minute. */
const patienceMs = 120_000;

/** Asks the server until everything has settled. */
export async function settle(
  url: string | undefined,
  events: readonly StormEvent[],
  onWait: (left: number) => void,
): Promise<Verdict> {
  const until = Date.now() + patienceMs;
  for (;;) {
    const effects = await effectsAt(url);
    const verdict = judge(events, effects);
    if ((effects.unfinished === 0 && verdict.lost.length === 0) || Date.now() > until) return verdict;
    onWait(Math.max(effects.unfinished, verdict.lost.length));
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

/** What the server tells of a storm so far. Asked before anything is sent, it says whether it can. */
export async function effectsAt(url: string | undefined): Promise<Effects> {
  const response = url ? await fetch(url).catch(() => undefined) : undefined;
  if (!response?.ok) {
    throw new Failure(
      "The server does not tell what becomes of a storm: its configuration needs `effects` (see examples/store), and " +
        "it tells on loopback alone, outside of production. One event goes without: onceward trigger TYPE.",
    );
  }
  return (await response.json()) as Effects;
}
