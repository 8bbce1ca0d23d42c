/**
 * The database as the explorer sees it: every pair of a state and a statement is run by the real Postgres once,
 * and remembered. Schedules share most of their states (a process that crashed after its last statement leaves
 * what one leaves that crashed before its next), so that most statements of most schedules are known already.
 *
 * A state is all rows of all tables and the time. While transactions are open it is the last such state and what
 * was done since, which is done again when the real database has to be brought there.
 */
import { isDeepStrictEqual } from "node:util";
import { type LiveDatabase, type Reply, type Statement } from "./live.ts";
import { verbOf } from "./params.ts";
import { type Rows, readRows } from "./rows.ts";

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

interface Edge extends Outcome {
  readonly to: Place;
}

/** A state that was reached, and what is known to follow from it. */
export class Place {
  readonly edges = new Map<number, Edge>();
  readonly clockMs: number;
  /** All rows as text, where no transaction is open. */
  readonly dump: string | undefined;
  readonly before: { readonly place: Place; readonly action: Action; readonly outcome: Outcome } | undefined;
  readonly open: ReadonlySet<string>;
  readonly blocked: ReadonlySet<string>;
  #rows: Rows | undefined;

  constructor(of: Pick<Place, "clockMs" | "dump" | "before" | "open" | "blocked">) {
    this.clockMs = of.clockMs;
    this.dump = of.dump;
    this.before = of.before;
    this.open = of.open;
    this.blocked = of.blocked;
  }

  rows(live: LiveDatabase): Rows {
    if (this.dump === undefined) throw new Error("A transaction is open: nobody sees all rows.");
    this.#rows ??= readRows(live.tables, this.dump);
    return this.#rows;
  }
}

/** For races between two; each way is taken now and then. */
const mostTries = 30;

const none: ReadonlySet<string> = new Set();

export interface ReplicaOptions {
  /** False: every statement of every schedule is run for real. */
  readonly remember?: boolean;
  /** Told of every new step from one state without open transactions to the next. */
  readonly onChange?: (before: Place, after: Place, actions: readonly Action[]) => void;
}

export class Replica {
  readonly live: LiveDatabase;
  readonly #options: ReplicaOptions;
  readonly #places = new Map<string, Place>();
  /** Statements are long and few. */
  readonly #numbers = new Map<string, number>();
  readonly #root: Place;
  #at: Place;
  /** Where the real database stands; undefined: somewhere in between. */
  #liveAt: Place | undefined;

  constructor(live: LiveDatabase, dump: string, clockMs: number, options: ReplicaOptions) {
    this.live = live;
    this.#options = options;
    this.#root = this.#settled(dump, clockMs);
    this.#at = this.#root;
  }

  get at(): Place {
    return this.#at;
  }

  get states(): number {
    return this.#places.size;
  }

  rows(): Rows {
    return this.#at.rows(this.live);
  }

  /** Back to where every schedule begins. */
  reset(): void {
    this.#at = this.#root;
    if (this.#options.remember === false) this.#liveAt = undefined;
  }

  /** Undefined where a promise is needed: the step has never been taken. */
  known(action: Action): Outcome | undefined {
    const edge =
      this.#options.remember === false ? undefined : this.#at.edges.get(this.#numberOf(this.#at, action));
    if (edge) this.#at = edge.to;
    return edge;
  }

  /** Whether this would change anything now. */
  async changes(action: Action): Promise<boolean> {
    const from = this.#at;
    await this.step(action);
    const changed = this.#at !== from;
    this.#at = from;
    return changed;
  }

  async step(action: Action): Promise<Outcome> {
    const known = this.known(action);
    if (known) return known;
    const from = this.#at;
    const edge = await this.#edge(from, action);
    from.edges.set(this.#numberOf(from, action), edge);
    this.#at = edge.to;
    return edge;
  }

  async #edge(from: Place, action: Action): Promise<Edge> {
    if (from.dump !== undefined && action.do === "clock") {
      // Nothing but the time changes, which the real database is told when it has something to do.
      return { reply: undefined, woken: [], to: this.#settled(from.dump, action.ms) };
    }
    if (from.dump !== undefined && action.do === "run" && !action.begin && verbOf(action.statement)) {
      const isThere = this.#liveAt?.dump === from.dump;
      this.#liveAt = undefined;
      const { reply, dump } = await this.live.runAlone(
        action.statement,
        from.clockMs,
        isThere ? undefined : from.dump,
      );
      this.#liveAt = this.#settled(dump, from.clockMs);
      this.#report(from, this.#liveAt, action);
      return { reply, woken: [], to: this.#liveAt };
    }
    await this.#bring(from);
    const edge = await this.#take(from, action);
    this.#liveAt = edge.to;
    return edge;
  }

  /** Brings the real database to this state. */
  async #bring(place: Place): Promise<void> {
    if (this.#liveAt === place) return;
    const path: { action: Action; outcome: Outcome }[] = [];
    let base = place;
    for (; base.before; base = base.before.place) path.unshift(base.before);
    for (let tries = 1; ; tries++) {
      if (this.#liveAt?.dump !== base.dump) await this.live.restore(base.dump!, base.clockMs);
      else if (this.#liveAt !== base) await this.live.setClock(base.clockMs);
      this.#liveAt = undefined;
      if (await this.#follow(path)) return;
      if (tries === mostTries)
        throw new Error("The database does not answer as it did: a state cannot be reached again.");
    }
  }

  /** False where it went another way: two sessions that wait for the same transaction wake together, and race. */
  async #follow(path: readonly { action: Action; outcome: Outcome }[]): Promise<boolean> {
    for (const { action, outcome } of path) {
      const { reply, woken } = await this.#perform(action);
      if (!isDeepStrictEqual([reply, woken], [outcome.reply, outcome.woken])) return false;
    }
    return true;
  }

  async #perform(action: Action): Promise<Outcome> {
    if (action.do === "run") {
      const reply = await this.live.run(action.session, action.statement, action.begin);
      return { reply, woken: await this.live.woken() };
    }
    if (action.do === "clock") {
      await this.live.setClock(action.ms);
      return { reply: undefined, woken: [] };
    }
    await this.live.run(action.session, { text: "rollback", values: [] });
    return { reply: undefined, woken: await this.live.woken() };
  }

  async #take(from: Place, action: Action): Promise<Edge> {
    this.#liveAt = undefined;
    const outcome = await this.#perform(action);
    const clockMs = action.do === "clock" ? action.ms : from.clockMs;
    const open = new Set(from.open);
    const blocked = new Set(from.blocked);
    if (action.do !== "clock") {
      if (action.do === "end" || /^(commit|rollback)/i.test(action.statement.text))
        open.delete(action.session);
      else if (action.begin) open.add(action.session);
      if (outcome.reply === "blocked") blocked.add(action.session);
      for (const { session } of outcome.woken) blocked.delete(session);
    }
    if (open.size > 0 || blocked.size > 0) {
      return {
        ...outcome,
        to: new Place({ clockMs, dump: undefined, before: { place: from, action, outcome }, open, blocked }),
      };
    }
    const to = this.#settled(await this.live.dump(), clockMs);
    this.#report(from, to, action);
    return { ...outcome, to };
  }

  #report(from: Place, to: Place, last: Action): void {
    const actions = [last];
    let base = from;
    for (; base.before; base = base.before.place) actions.unshift(base.before.action);
    if (base !== to) this.#options.onChange?.(base, to, actions);
  }

  #numberOf(from: Place, action: Action): number {
    const name = nameOf(from, action);
    let number = this.#numbers.get(name);
    if (number === undefined) this.#numbers.set(name, (number = this.#numbers.size));
    return number;
  }

  #settled(dump: string, clockMs: number): Place {
    const name = `${clockMs} ${dump}`;
    let place = this.#places.get(name);
    if (!place) {
      place = new Place({ clockMs, dump, before: undefined, open: none, blocked: none });
      this.#places.set(name, place);
    }
    return place;
  }
}

/** Where no transaction is open, it does not matter whose session runs a statement. */
function nameOf(from: Place, action: Action): string {
  if (action.do === "clock") return `clock ${action.ms}`;
  if (action.do === "end") return `end ${action.session}`;
  const { text, values } = action.statement;
  const alone = from.dump !== undefined && !action.begin;
  const written = values.map((value) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
  );
  return `${alone ? "" : action.session} ${action.begin ?? ""} ${text} ${JSON.stringify(written)}`;
}
