/**
 * The database as the explorer sees it: every pair of a state and a statement is run by the real Postgres once,
 * and remembered. Schedules share most of their states (a process that crashed after its last statement leaves
 * what one leaves that crashed before its next), so that most statements of most schedules are known already.
 *
 * A state is all rows of all tables and the time. While transactions are open it is the last such state and what
 * was done since, which is done again when the real database has to be brought there.
 */
import { isDeepStrictEqual } from "node:util";
import type { LiveDatabase, Reply, Statement, TimedStatement } from "./live.ts";
import { verbOf } from "./params.ts";
import { type Rows, readRows } from "./rows.ts";
import type { Violation } from "./scene.ts";

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
  /** What is wrong with this step, whenever it is taken. */
  readonly wrong?: readonly Violation[];
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

type Followed = NonNullable<Place["before"]>;

/** What a transaction did since the last state without any. */
interface Alone {
  readonly base: Place;
  readonly statements: readonly TimedStatement[];
}

/** Some kilobytes each; more are forgotten and found anew. */
const mostPlaces = 100_000;

/** For races between two; each way is taken now and then. */
const mostTries = 30;
/** After so many the one that waited first cannot win at all. */
const mostRaces = 12;

const none: ReadonlySet<string> = new Set();

export interface ReplicaOptions {
  /** False: every statement of every schedule is run for real. */
  readonly remember?: boolean;
  /** Says what is wrong with a step from one state without open transactions to the next. */
  readonly check?: (before: Place, after: Place, actions: readonly Action[]) => readonly Violation[];
}

/** The database does not answer as it did: two sessions raced, and the one won that hardly ever does. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

export class Replica {
  readonly live: LiveDatabase;
  /** What was wrong with the steps of this schedule. */
  readonly wrong: Violation[] = [];
  readonly #options: ReplicaOptions;
  readonly #places = new Map<string, Place>();
  /** Statements are long and few. */
  readonly #numbers = new Map<string, number>();
  readonly #root: Place;
  /** What was answered to who looked for work when nothing was left to do. */
  readonly #anyTime = new Map<string, Outcome>();
  #at: Place;
  /** Where the real database stands; undefined: somewhere in between. */
  #liveAt: Place | undefined;
  /** The rows that it has, where no transaction is open; whatever its clock says. */
  #liveDump: string | undefined;

  constructor(live: LiveDatabase, dump: string, clockMs: number, options: ReplicaOptions) {
    this.live = live;
    this.#options = options;
    this.#root = this.#settled(dump, clockMs);
    this.#at = this.#root;
  }

  #forget(): void {
    for (const one of [this.#places, this.#numbers, this.#anyTime, this.#root.edges]) one.clear();
    this.#places.set(nameOfPlace(this.#root.dump!, this.#root.clockMs), this.#root);
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
    if (this.#places.size > mostPlaces) this.#forget();
    this.#at = this.#root;
    this.wrong.length = 0;
    if (this.#options.remember === false) this.#leave();
  }

  /** Undefined where a promise is needed: the step has never been taken. */
  known(action: Action): Outcome | undefined {
    if (this.#options.remember === false) return undefined;
    const presence = presenceOf(action);
    if (presence) return presence;
    const edge = this.#at.edges.get(this.#numberOf(this.#at, action)) ?? this.#knownAnyTime(this.#at, action);
    if (edge) this.#go(edge);
    return edge;
  }

  #go({ to, wrong }: Edge): void {
    this.#at = to;
    if (wrong) this.wrong.push(...wrong);
  }

  /** Where nothing is left to do, whoever looks for work finds the same at any time. */
  #knownAnyTime(at: Place, action: Action): Edge | undefined {
    const name = this.#timeless(at, action);
    const outcome = name === undefined ? undefined : this.#anyTime.get(name);
    if (!outcome) return undefined;
    const edge = { ...outcome, to: at };
    at.edges.set(this.#numberOf(at, action), edge);
    return edge;
  }

  #timeless(at: Place, action: Action): string | undefined {
    if (at.dump === undefined || action.do !== "run" || !verbOf(action.statement)?.startsWith("claim_due"))
      return undefined;
    const isOver = at
      .rows(this.live)
      .of("onceward.task")
      .every((task) => task["due_at"] === null);
    return isOver ? `${this.#numberOf(at, action)} ${at.dump}` : undefined;
  }

  /** Whether this would change anything now. */
  async changes(action: Action): Promise<boolean> {
    const from = this.#at;
    const found = this.wrong.length;
    await this.step(action);
    const changed = this.#at !== from;
    this.#at = from;
    this.wrong.length = found;
    return changed;
  }

  async step(action: Action): Promise<Outcome> {
    const known = this.known(action);
    if (known) return known;
    const from = this.#at;
    const edge = await this.#edge(from, action);
    from.edges.set(this.#numberOf(from, action), edge);
    const timeless = this.#timeless(from, action);
    if (timeless !== undefined && edge.to === from) this.#anyTime.set(timeless, edge);
    this.#go(edge);
    return edge;
  }

  async #edge(from: Place, action: Action): Promise<Edge> {
    if (from.dump !== undefined && action.do === "clock") {
      // Nothing but the time changes, which the real database is told when it has something to do.
      return { reply: undefined, woken: [], to: this.#settled(from.dump, action.ms) };
    }
    if (from.dump !== undefined && action.do === "run" && !action.begin && verbOf(action.statement)) {
      const { reply, dump } = await this.live.runAlone(
        action.statement,
        from.clockMs,
        this.#unlessThere(from),
      );
      this.#stand(dump);
      const to = this.#settled(dump, from.clockMs);
      return { reply, woken: [], to, wrong: this.#check(from, to, action) };
    }
    const alone = this.#options.remember === false ? undefined : aloneIn(from, action);
    if (alone) return this.#transact(from, action, alone);
    await this.#bring(from);
    const edge = await this.#take(from, action);
    if (edge.to.dump === undefined) this.#liveAt = edge.to;
    else this.#stand(edge.to.dump);
    return edge;
  }

  /** A step of a transaction while nobody else has one open: all of it is done anew, and undone unless it commits. */
  async #transact(from: Place, action: Action, { base, statements }: Alone): Promise<Edge> {
    const ending = action.do === "run" ? /^(commit|rollback)/i.exec(action.statement.text)?.[0] : "end";
    if (ending && !/^commit/i.test(ending)) {
      const reply: Reply | undefined =
        action.do === "run" ? { rows: "[]", command: "ROLLBACK", rowCount: null } : undefined;
      return { reply, woken: [], to: this.#settled(base.dump!, from.clockMs) };
    }
    const { reply, dump } = await this.live.runTransaction(
      statements,
      ending ? "kept" : "undone",
      this.#unlessThere(base),
    );
    if (ending && dump === undefined)
      throw new Error(`A transaction cannot be repeated: ${JSON.stringify(reply)}`);
    this.#stand(dump ?? base.dump!);
    if (dump === undefined) return { reply, woken: [], to: placeAfter(from, action, { reply, woken: [] }) };
    const to = this.#settled(dump, from.clockMs);
    const committed: Reply = { rows: "[]", command: "COMMIT", rowCount: null };
    return { reply: committed, woken: [], to, wrong: this.#check(from, to, action) };
  }

  /** The rows to restore, unless the real database has them already. */
  #unlessThere({ dump }: Place): string | undefined {
    const isThere = this.#liveDump === dump;
    this.#leave();
    return isThere ? undefined : dump;
  }

  #leave(): void {
    this.#liveAt = undefined;
    this.#liveDump = undefined;
  }

  #stand(dump: string): void {
    this.#liveAt = undefined;
    this.#liveDump = dump;
  }

  /** Brings the real database to this state. */
  async #bring(place: Place): Promise<void> {
    if (place.dump === undefined && this.#liveAt === place) return;
    const path: Followed[] = [];
    let base = place;
    for (; base.before; base = base.before.place) path.unshift(base.before);
    for (let tries = 1; ; tries++) {
      const isThere = this.#liveDump === base.dump;
      this.#leave();
      if (isThere) await this.live.setClock(base.clockMs);
      else await this.live.restore(base.dump!, base.clockMs);
      if (await this.#follow(path)) return;
      if (tries < mostTries) continue;
      // Whoever goes this way again finds out anew what it leads to.
      for (const { place: left, action } of path) left.edges.delete(this.#numberOf(left, action));
      throw new Unreachable();
    }
  }

  /** False where it went another way: two sessions that wait for the same transaction wake together, and race. */
  async #follow(path: readonly Followed[]): Promise<boolean> {
    for (let i = 0; i < path.length;) {
      const { place, action, outcome } = path[i]!;
      if (place.dump !== undefined && action.do === "run" && action.begin) {
        const together = firstSteps(path, i, action.session);
        const replies = await this.live.runTogether(
          action.session,
          together.map((step) => step.statement),
          action.begin,
        );
        if (
          !isDeepStrictEqual(
            replies,
            together.map((step) => step.reply),
          )
        )
          return false;
        i += together.length;
        continue;
      }
      const { reply, woken } = await this.#perform(action);
      if (!isDeepStrictEqual([reply, woken], [outcome.reply, outcome.woken])) return false;
      i++;
    }
    return true;
  }

  async #perform(action: Action): Promise<Outcome> {
    if (action.do === "clock") {
      await this.live.setClock(action.ms);
      return { reply: undefined, woken: [] };
    }
    const statement = action.do === "run" ? action.statement : { text: "rollback", values: [] };
    const reply = await this.live.run(
      action.session,
      statement,
      action.do === "run" ? action.begin : undefined,
    );
    // Locks are let go by whatever ends a transaction, and by what makes one fail.
    const letsGo = reply !== "blocked" && ("error" in reply || /^(commit|rollback)/i.test(statement.text));
    const woken = letsGo ? await this.live.woken() : [];
    return { reply: action.do === "run" ? reply : undefined, woken };
  }

  async #take(from: Place, action: Action): Promise<Edge> {
    const outcome = await this.#performOrderly(from, action);
    const to = placeAfter(from, action, outcome);
    if (to.open.size > 0 || to.blocked.size > 0) return { ...outcome, to };
    const settled = this.#settled(await this.live.dump(), to.clockMs);
    return { ...outcome, to: settled, wrong: this.#check(from, settled, action) };
  }

  /** Where two race for what a third lets go, it is done again until the one wins that waited first: the same every time. */
  async #performOrderly(from: Place, action: Action): Promise<Outcome> {
    const endsOne = action.do === "end" || (action.do === "run" && isEnding(action.statement));
    for (let tries = 1; ; tries++) {
      this.#leave();
      const first = endsOne ? await this.live.firstBehind(action.session) : undefined;
      const outcome = await this.#perform(action);
      const isOrderly = first === undefined || outcome.woken.some(({ session }) => session === first);
      if (isOrderly || tries === mostRaces) return outcome;
      await this.#bring(from);
    }
  }

  #check(from: Place, to: Place, last: Action): readonly Violation[] {
    const actions = [last];
    let base = from;
    for (; base.before; base = base.before.place) actions.unshift(base.before.action);
    return base === to ? [] : (this.#options.check?.(base, to, actions) ?? []);
  }

  #numberOf(from: Place, action: Action): number {
    const name = nameOf(from, action);
    let number = this.#numbers.get(name);
    if (number === undefined) this.#numbers.set(name, (number = this.#numbers.size));
    return number;
  }

  #settled(dump: string, clockMs: number): Place {
    const name = nameOfPlace(dump, clockMs);
    let place = this.#places.get(name);
    if (!place) {
      place = new Place({ clockMs, dump, before: undefined, open: none, blocked: none });
      this.#places.set(name, place);
    }
    return place;
  }
}

function nameOfPlace(dump: string, clockMs: number): string {
  return `${clockMs} ${dump}`;
}

const presence: Outcome = {
  reply: { rows: '[{"answer":"hello"}]', command: "SELECT", rowCount: 1 },
  woken: [],
};

/** Who says hello, goodbye or that there is work writes nothing that is part of a state, and looks at no answer. */
function presenceOf(action: Action): Outcome | undefined {
  if (action.do !== "run" || action.begin) return undefined;
  return /\.(hello|goodbye|wake)\(/.test(action.statement.text) ? presence : undefined;
}

function placeAfter(from: Place, action: Action, outcome: Outcome): Place {
  const open = new Set(from.open);
  const blocked = new Set(from.blocked);
  if (action.do !== "clock") {
    if (action.do === "end" || /^(commit|rollback)/i.test(action.statement.text)) open.delete(action.session);
    else if (action.begin) open.add(action.session);
    if (outcome.reply === "blocked") blocked.add(action.session);
    for (const { session } of outcome.woken) blocked.delete(session);
  }
  return new Place({
    clockMs: action.do === "clock" ? action.ms : from.clockMs,
    dump: undefined,
    before: { place: from, action, outcome },
    open,
    blocked,
  });
}

/** Undefined where somebody else has a transaction open, or one failed. */
function aloneIn(from: Place, action: Action): Alone | undefined {
  if (action.do === "clock") return undefined;
  const statements: TimedStatement[] = [];
  const isMine = (one: Action): boolean => {
    if (one.do === "clock") return true;
    if (one.session !== action.session) return false;
    return one.do === "end" || isEnding(one.statement) || isPlain(one.statement);
  };
  if (!isMine(action) || (from.dump !== undefined && !(action.do === "run" && action.begin)))
    return undefined;
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

function isEnding({ text }: Statement): boolean {
  return /^(commit|rollback)/i.test(text);
}

/** What explore.run_transaction can run: verbs, and writes that return nothing. */
function isPlain(statement: Statement): boolean {
  return (
    verbOf(statement) !== undefined ||
    (/^(insert|update|delete) /i.test(statement.text) && !/returning/i.test(statement.text))
  );
}

/** The steps with which a transaction begins, before anybody else does anything and before it ends. */
function firstSteps(
  path: readonly Followed[],
  from: number,
  session: string,
): { statement: Statement; reply: Outcome["reply"] }[] {
  const steps: { statement: Statement; reply: Outcome["reply"] }[] = [];
  for (const { action, outcome } of path.slice(from)) {
    if (action.do !== "run" || action.session !== session || isEnding(action.statement)) break;
    steps.push({ statement: action.statement, reply: outcome.reply });
    if (outcome.reply && outcome.reply !== "blocked" && "error" in outcome.reply) break;
  }
  return steps;
}

/** Where no transaction is open, it does not matter whose session runs a statement. */
function nameOf(from: Place, action: Action): string {
  if (action.do === "clock") return `clock ${action.ms}`;
  if (action.do === "end") return `end ${action.session}`;
  const alone = from.dump !== undefined && !action.begin;
  return `${alone ? "" : action.session} ${action.begin ?? ""} ${textOf(action.statement)}`;
}

/** Asked for several times while one step is taken. */
const texts = new WeakMap<Statement, string>();

function textOf(statement: Statement): string {
  let text = texts.get(statement);
  if (text === undefined) {
    const values = statement.values.map((value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
    );
    texts.set(statement, (text = `${statement.text} ${JSON.stringify(values)}`));
  }
  return text;
}
