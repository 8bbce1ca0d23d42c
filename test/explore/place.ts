/** A state that was reached, with what is known to follow from it. */
import type { Statement, TimedStatement } from "./live.ts";
import { isEnding, isPlain } from "./params.ts";
import type { Reply } from "./reply.ts";
import type { Violation } from "./scene.ts";
import type { State } from "./state.ts";
import { withoutTimes } from "./times.ts";

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
  readonly wrong?: readonly Violation[] | undefined;
  /** Where an answer names a time, that answer by clocks that differ by so many milliseconds. */
  readonly byClock: Map<number, Outcome> | undefined;
}

/** How a place was reached the first time. */
export interface Followed {
  readonly place: Place;
  readonly action: Action;
  readonly outcome: Outcome;
}

/**
 * It stands for all states from which the same follows, and has the rows and the clock of the one that was reached
 * first. While transactions are open that is the last state without any, and what was done since.
 */
export class Place {
  readonly edges = new Map<number, Edge>();
  /** Where one is so many milliseconds later, if nothing happens meanwhile. */
  readonly later = new Map<number, Place>();
  readonly clockMs: number;
  /** What everybody sees. */
  readonly committed: State;
  readonly before: Followed | undefined;
  /** Sessions with a transaction, and what they have done in it. */
  readonly open: ReadonlyMap<string, string>;
  /** Sessions whose statement waits for a lock, in the order in which they came. */
  readonly blocked: ReadonlyMap<string, string>;

  constructor(of: Pick<Place, "clockMs" | "committed"> & Partial<Place>) {
    this.clockMs = of.clockMs;
    this.committed = of.committed;
    this.before = of.before;
    this.open = of.open ?? none;
    this.blocked = of.blocked ?? none;
  }

  /** All rows; undefined where a transaction is open, of which nobody else sees what it did. */
  get state(): State | undefined {
    return this.before ? undefined : this.committed;
  }

  /** The same for all places from which the same follows. */
  get name(): string {
    const rows = this.committed.nameAt(this.clockMs);
    if (!this.before) return rows;
    const open = [...this.open].map((one) => one.join(" ")).toSorted();
    return [rows, ...open, "", ...[...this.blocked].map((one) => one.join(" "))].join("\n");
  }
}

const none: ReadonlyMap<string, string> = new Map();

/** While transactions are open. `what` says what was done, and `committed` what everybody sees then. */
export function placeAfter(
  from: Place,
  action: Action,
  outcome: Outcome,
  { what, committed }: { what: string; committed: State },
): Place {
  const open = new Map(from.open);
  const blocked = new Map(from.blocked);
  const note = (session: string, text: string): void => {
    open.set(session, `${open.get(session) ?? ""}${text}; `);
  };
  if (action.do !== "clock") {
    const { session } = action;
    if (action.do === "end" || isEnding(action.statement)) open.delete(session);
    else if (action.begin || open.has(session)) note(session, `${what} ${nameOfReply(outcome.reply)}`);
    if (outcome.reply === "blocked") blocked.set(session, what);
    for (const { session: woken, reply } of outcome.woken) {
      blocked.delete(woken);
      if (open.has(woken)) note(woken, nameOfReply(reply));
    }
  }
  return new Place({
    clockMs: action.do === "clock" ? action.ms : from.clockMs,
    committed,
    before: { place: from, action, outcome },
    open,
    blocked,
  });
}

function nameOfReply(reply: Outcome["reply"]): string {
  if (typeof reply !== "object") return reply ?? "";
  return "error" in reply ? `error ${reply.error.code}` : withoutTimes(reply.rows);
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
