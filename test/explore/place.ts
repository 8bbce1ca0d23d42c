/** A state that was reached, with what is known to follow from it. */
import type { Reply, Statement, TimedStatement } from "./live.ts";
import { isEnding, isPlain } from "./params.ts";
import type { Violation } from "./scene.ts";
import type { State } from "./state.ts";

/** `end`: the session's connection is gone, and with it its transaction. */
export type Action =
  | {
      readonly do: "run";
      readonly session: string;
      readonly statement: Statement;
      /** The statement that began the transaction, with the first one in it: alone it does nothing. */
      readonly begin?: string | undefined;
    }
  | { readonly do: "end"; readonly session: string }
  | { readonly do: "clock"; readonly ms: number };

export interface Outcome {
  readonly reply: Reply | "blocked" | undefined;
  /** Sessions whose statement waited for a lock until now. */
  readonly woken: readonly { readonly session: string; readonly reply: Reply }[];
}

export interface Edge extends Outcome {
  readonly to: Place;
  /** What is wrong with this step, whenever it is taken. */
  readonly wrong?: readonly Violation[];
  /** An answer names a time. */
  readonly tellsTime: boolean;
}

/** How a place was reached the first time. */
export interface Followed {
  readonly place: Place;
  readonly action: Action;
  readonly outcome: Outcome;
}

const none: ReadonlySet<string> = new Set();

/**
 * While no transaction is open it stands for all states from which the same follows, and has the rows and the clock
 * of the one that was reached first. Else it is the last such place, and what was done since.
 */
export class Place {
  readonly edges = new Map<number, Edge>();
  /** Where one is so many milliseconds later, if nothing happens meanwhile. */
  readonly later = new Map<number, Place>();
  readonly clockMs: number;
  /** Undefined where a transaction is open: nobody sees all rows. */
  readonly state: State | undefined;
  readonly before: Followed | undefined;
  /** Sessions with a transaction, and those whose statement waits for a lock. */
  readonly open: ReadonlySet<string>;
  readonly blocked: ReadonlySet<string>;

  constructor(of: Pick<Place, "clockMs" | "state" | "before"> & Partial<Pick<Place, "open" | "blocked">>) {
    this.clockMs = of.clockMs;
    this.state = of.state;
    this.before = of.before;
    this.open = of.open ?? none;
    this.blocked = of.blocked ?? none;
  }
}

/** While transactions are open. */
export function placeAfter(from: Place, action: Action, outcome: Outcome): Place {
  const open = new Set(from.open);
  const blocked = new Set(from.blocked);
  if (action.do !== "clock") {
    if (action.do === "end" || isEnding(action.statement)) open.delete(action.session);
    else if (action.begin) open.add(action.session);
    if (outcome.reply === "blocked") blocked.add(action.session);
    for (const { session } of outcome.woken) blocked.delete(session);
  }
  return new Place({
    clockMs: action.do === "clock" ? action.ms : from.clockMs,
    state: undefined,
    before: { place: from, action, outcome },
    open,
    blocked,
  });
}

/** What a transaction did since the last state without any. */
export interface Alone {
  readonly base: Place;
  readonly statements: readonly TimedStatement[];
}

/** Undefined where somebody else has a transaction open, or one failed. */
export function aloneIn(from: Place, action: Action): Alone | undefined {
  if (action.do === "clock") return undefined;
  const statements: TimedStatement[] = [];
  const isMine = (one: Action): boolean => {
    if (one.do === "clock") return true;
    if (one.session !== action.session) return false;
    return one.do === "end" || isEnding(one.statement) || isPlain(one.statement);
  };
  if (!isMine(action) || (from.state && !(action.do === "run" && action.begin))) return undefined;
  if (action.do === "run" && !isEnding(action.statement))
    statements.push({ statement: action.statement, clockMs: from.clockMs });
  let base = from;
  for (; base.before; base = base.before.place) {
    const { place, action: done, outcome } = base.before;
    const failed = outcome.reply === "blocked" || (outcome.reply && "error" in outcome.reply);
    if (!isMine(done) || failed || done.do === "end") return undefined;
    if (done.do === "run") statements.unshift({ statement: done.statement, clockMs: place.clockMs });
  }
  return { base, statements };
}
