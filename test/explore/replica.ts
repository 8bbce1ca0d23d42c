/**
 * The database as the explorer sees it: every pair of a state and a statement is run by the real Postgres once,
 * and remembered. Schedules share most of their states (a process that crashed after its last statement leaves
 * what one leaves that crashed before its next), so that most statements of most schedules are known already.
 *
 * States count as one where the same follows from them: see state.ts. So the real clock and that of a schedule differ,
 * and times in answers are told by the schedule's.
 */
import type { LiveDatabase, Statement } from "./live.ts";
import { type Action, type Alone, aloneIn, type Edge, type Outcome, Place, placeAfter } from "./place.ts";
import { isEnding } from "./params.ts";
import type { Reply } from "./reply.ts";
import { Route } from "./route.ts";
import type { Rows } from "./rows.ts";
import type { Violation } from "./scene.ts";
import { type Change, difference, type State, States, timeless } from "./state.ts";
import { type Known, Statements } from "./statements.ts";
import { shifted, tellsTime } from "./times.ts";

/** Some kilobytes each; more are forgotten and found anew. */
const mostPlaces = 100_000;

/** Names of the sessions of the real database: who has which changes, and nothing depends on it. */
const sessions = Array.from({ length: 16 }, (_, i) => `session ${i}`);

export interface ReplicaOptions {
  /** False: every statement of every schedule is run for real. */
  readonly remember?: boolean;
  /** Says what is wrong with a step from what everybody saw before it to what everybody sees then. */
  readonly check?: (
    before: Rows,
    after: Rows,
    clockMs: number,
    actions: readonly Action[],
  ) => readonly Violation[];
}

/** Where the real database stands: at this place, though perhaps with other rows and another clock than were there first. */
interface Standing {
  readonly place: Place;
  readonly state: State;
  readonly clockMs: number;
}

export class Replica {
  /** What was wrong with the steps of this schedule. */
  readonly wrong: Violation[] = [];
  readonly #live: LiveDatabase;
  readonly #options: ReplicaOptions;
  readonly #states: States;
  readonly #statements = new Statements();
  readonly #places = new Map<string, Place>();
  readonly #route: Route;
  readonly #root: Place;
  readonly #startMs: number;
  #at: Place;
  /** By the clock of this schedule. */
  #nowMs: number;
  /** Which real session stands for one of this schedule that has a transaction open, or waits for a lock. */
  readonly #sessions = new Map<string, number>();
  #unique = 0;
  #hasForgotten = false;
  /** Undefined where transactions are open: see Route. */
  #standing: Standing | undefined;

  constructor(live: LiveDatabase, clockMs: number, options: ReplicaOptions) {
    this.#live = live;
    this.#options = options;
    this.#states = new States(live.tables);
    this.#route = new Route(live, (place, action) => {
      this.#hasForgotten = true;
      place.edges.delete(this.#edgeNumber(place, action, this.#knownOf(action)));
    });
    this.#root = this.#settled(this.#states.empty, clockMs);
    this.#startMs = clockMs;
    this.#at = this.#root;
    this.#nowMs = clockMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get states(): number {
    return this.#places.size;
  }

  /** What is found anew may be another outcome of a race: not all that followed from the first one can be done again. */
  get hasForgotten(): boolean {
    return this.#hasForgotten;
  }

  /** No transaction is open. */
  get isSettled(): boolean {
    return this.#at.state !== undefined;
  }

  isOpen(session: string): boolean {
    const number = this.#sessions.get(session);
    return number !== undefined && this.#at.open.has(sessions[number]!);
  }

  rows(): Rows {
    if (!this.#at.state) throw new Error("A transaction is open: nobody sees all rows.");
    return this.#at.state;
  }

  /** Back to where every schedule begins. */
  reset(): void {
    if (this.#places.size > mostPlaces) this.#forget();
    this.#at = this.#root;
    this.#nowMs = this.#startMs;
    this.#sessions.clear();
    this.wrong.length = 0;
    if (this.#options.remember === false) this.#forget();
  }

  #forget(): void {
    this.#hasForgotten = true;
    this.#places.clear();
    this.#root.edges.clear();
    this.#root.later.clear();
    this.#places.set(this.#root.name, this.#root);
  }

  /** Lets time pass. */
  setClock(ms: number): void {
    const from = this.#at;
    const by = ms - this.#nowMs;
    let to = from.later.get(by);
    if (!to) {
      const clockMs = from.clockMs + by;
      // Nothing but the time changes, which the real database is told when it has something to do.
      to = from.state
        ? this.#settled(from.state, clockMs)
        : this.#known(this.#after(from, { do: "clock", ms: clockMs }, passing, from.committed));
      if (this.#options.remember !== false) from.later.set(by, to);
    }
    this.#at = to;
    this.#nowMs = ms;
  }

  /** Undefined where a promise is needed: the step has never been taken. */
  known(action: Action): Outcome | undefined {
    const known = this.#knownOf(action);
    if (known?.isPresence) return presence;
    if (this.#options.remember === false) return undefined;
    const isAlone = known && action.do === "run" && !action.begin && this.#at.state;
    const number = isAlone ? numberAlone(known) : this.#edgeNumber(this.#at, this.#real(action), known);
    const edge = this.#at.edges.get(number);
    return edge && this.#go(edge, action);
  }

  async step(action: Action): Promise<Outcome> {
    const known = this.known(action);
    if (known) return known;
    const from = this.#at;
    const real = this.#real(action);
    const edge = await this.#edge(from, real);
    if (this.#options.remember !== false)
      from.edges.set(this.#edgeNumber(from, real, this.#knownOf(real)), edge);
    return this.#go(edge, action);
  }

  /** Whether this would change anything now. */
  changes(action: Action): boolean | Promise<boolean> {
    const from = this.#at;
    const found = this.wrong.length;
    const before = [...this.#sessions];
    const isOther = (): boolean => {
      const { state } = this.#at;
      const changed = this.#at !== from && (!state || state !== from.state);
      this.#at = from;
      this.#sessions.clear();
      for (const [name, number] of before) this.#sessions.set(name, number);
      this.wrong.length = found;
      return changed;
    };
    return this.known(action) ? isOther() : this.step(action).then(isOther);
  }

  #go(edge: Edge, action: Action): Outcome {
    const byMs = this.#nowMs - this.#at.clockMs;
    this.#at = edge.to;
    if (edge.wrong) this.wrong.push(...edge.wrong);
    const outcome = byMs === 0 ? edge : byClock(edge, byMs);
    if (action.do === "clock" || (this.#sessions.size === 0 && this.#at.state)) return outcome;
    return this.#keepSessions(outcome, action.session);
  }

  /** Who has a transaction or waits keeps its session; who was answered is told by its own name. */
  #keepSessions(outcome: Outcome, acting: string): Outcome {
    const { open, blocked } = this.#at;
    if (!this.#sessions.has(acting)) this.#sessions.set(acting, this.#sessionOf(acting));
    const names = new Map([...this.#sessions].map(([name, number]) => [sessions[number]!, name]));
    for (const [name, number] of this.#sessions) {
      const session = sessions[number]!;
      if (!open.has(session) && !blocked.has(session)) this.#sessions.delete(name);
    }
    if (outcome.woken.length === 0) return outcome;
    return {
      reply: outcome.reply,
      woken: outcome.woken.map(({ session, reply }) => ({ session: names.get(session)!, reply })),
    };
  }

  #sessionOf(name: string): number {
    const known = this.#sessions.get(name);
    if (known !== undefined) return known;
    const taken = new Set(this.#sessions.values());
    return sessions.findIndex((_, number) => !taken.has(number));
  }

  /** The action as the real database sees it. */
  #real(action: Action): Action {
    return action.do === "clock"
      ? action
      : { ...action, session: sessions[this.#sessionOf(action.session)]! };
  }

  #knownOf(action: Action): Known | undefined {
    return action.do === "run" ? this.#statements.of(action.statement, action.begin) : undefined;
  }

  /** Where no transaction is open, it does not matter whose session runs a statement. */
  #edgeNumber(from: Place, action: Action, known: Known | undefined): number {
    if (action.do === "clock") throw new Error("Time passes by setClock.");
    const session = sessions.indexOf(action.session) + 1;
    if (!known || action.do === "end") return -session;
    return from.state && !action.begin ? numberAlone(known) : numberAlone(known) + session;
  }

  async #edge(from: Place, action: Action): Promise<Edge> {
    if (from.state && action.do === "run" && !action.begin && this.#knownOf(action)?.verb)
      return this.#runAlone(from, action, action.statement);
    const alone = this.#options.remember === false ? undefined : aloneIn(from, action);
    if (alone) return this.#transact(from, action, alone);
    const before = this.#standing;
    this.#standing = undefined;
    const { outcome, changesNothing } = await this.#route.take(from, action, before?.state);
    if (changesNothing && !from.state) return edgeTo(from, outcome);
    const committed = isWithin(from, action, outcome)
      ? from.committed
      : this.#states.after(undefined, await this.#live.dump());
    const reached = this.#after(from, action, outcome, committed);
    if (reached.open.size === 0 && reached.blocked.size === 0)
      return this.#arrive(from, action, outcome, committed, from.clockMs);
    const to = this.#known(reached);
    // Where that is known, its rows and its clock are others.
    if (to === reached) this.#route.stand(to);
    else this.#route.leave();
    return { ...edgeTo(to, outcome), wrong: this.#wrong(from, action, committed, from.clockMs) };
  }

  /** Where one is with transactions open. */
  #after(from: Place, action: Action, outcome: Outcome, committed: State): Place {
    const known = this.#knownOf(action);
    const isTimeless = !known?.verb || timeless.has(known.verb);
    const what = known ? `${known.number}${isTimeless ? "" : ` ${++this.#unique}`}` : "";
    return placeAfter(from, action, outcome, { what, committed });
  }

  async #runAlone(from: Place, action: Action, statement: Statement): Promise<Edge> {
    const { state, clockMs, change: first } = this.#startAt(from);
    const { reply, change } = await this.#live.runAlone(statement, clockMs, first);
    const outcome = { reply, woken: [] };
    const after = this.#states.after(state, change);
    const told = shifted(outcome, from.clockMs - clockMs);
    return this.#arrive(from, action, told, after, clockMs, state);
  }

  /** A step of a transaction while nobody else has one open: all of it is done anew, and undone unless it commits. */
  async #transact(from: Place, action: Action, { base, statements }: Alone): Promise<Edge> {
    const ending = action.do === "run" ? /^(commit|rollback)/i.exec(action.statement.text)?.[0] : "end";
    if (ending && !/^commit/i.test(ending)) {
      const reply: Reply | undefined =
        action.do === "run" ? { rows: "[]", command: "ROLLBACK", rowCount: null } : undefined;
      return edgeTo(this.#settled(base.state!, from.clockMs), { reply, woken: [] });
    }
    const { state, clockMs, change: first } = this.#startAt(base);
    const byMs = clockMs - base.clockMs;
    const { reply, change } = await this.#live.runTransaction(
      statements.map((one) => ({ ...one, clockMs: one.clockMs + byMs })),
      ending ? "kept" : "undone",
      first,
    );
    if (ending && !change) throw new Error(`A transaction cannot be repeated: ${JSON.stringify(reply)}`);
    if (!change) {
      this.#standing = { place: base, state, clockMs };
      const outcome = shifted({ reply, woken: [] }, -byMs);
      return edgeTo(this.#known(this.#after(from, action, outcome, base.committed)), outcome);
    }
    const committed: Reply = { rows: "[]", command: "COMMIT", rowCount: null };
    const after = this.#states.after(state, change);
    return this.#arrive(from, action, { reply: committed, woken: [] }, after, from.clockMs + byMs, state);
  }

  /** No transaction is open any more: checks what came of it. */
  #arrive(
    from: Place,
    action: Action,
    outcome: Outcome,
    state: State,
    clockMs: number,
    before?: State,
  ): Edge {
    const to = this.#settled(state, clockMs);
    this.#standing = { place: to, state, clockMs };
    return { ...edgeTo(to, outcome), wrong: this.#wrong(from, action, state, clockMs, before) };
  }

  /** Of what everybody sees, whether others have transactions open or not. */
  #wrong(from: Place, action: Action, after: State, clockMs: number, before = from.committed): Edge["wrong"] {
    if (before === after) return undefined;
    const actions = [action];
    for (let base = from; base.before; base = base.before.place) actions.unshift(base.before.action);
    return this.#options.check?.(before, after, clockMs, actions);
  }

  /** The rows and the clock to start from, and what has to be written for that. */
  #startAt(place: Place): { state: State; clockMs: number; change: Change | undefined } {
    const standing = this.#standing;
    this.#standing = undefined;
    this.#route.leave();
    if (standing?.place === place) return { ...standing, change: undefined };
    const state = place.state!;
    const change = standing?.state === state ? undefined : difference(standing?.state, state);
    return { state, clockMs: place.clockMs, change };
  }

  #settled(state: State, clockMs: number): Place {
    return this.#known(new Place({ clockMs, committed: state }));
  }

  /** The place that stands for this one. */
  #known(place: Place): Place {
    if (this.#options.remember === false) return place;
    const { name } = place;
    const known = this.#places.get(name);
    if (!known) this.#places.set(name, place);
    return known ?? place;
  }
}

/** What was done is seen by nobody else yet: it belongs to a transaction that is open, or waits, or was undone. */
function isWithin(from: Place, action: Action, { reply, woken }: Outcome): boolean {
  if (woken.length > 0) return false;
  if (reply === "blocked" || action.do !== "run" || /^rollback/i.test(action.statement.text)) return true;
  return (action.begin !== undefined || from.open.has(action.session)) && !isEnding(action.statement);
}

/** Of the step that runs a statement while nobody has a transaction open. */
function numberAlone(known: Known): number {
  return known.number * 2 * sessions.length;
}

function edgeTo(to: Place, { reply, woken }: Outcome): Edge {
  return { reply, woken, to, byClock: tellsTime({ reply, woken }) ? new Map<number, Outcome>() : undefined };
}

function byClock(edge: Edge, byMs: number): Outcome {
  if (!edge.byClock) return edge;
  let outcome = edge.byClock.get(byMs);
  if (!outcome) edge.byClock.set(byMs, (outcome = shifted(edge, byMs)));
  return outcome;
}

/** Of time that goes by. */
const passing: Outcome = { reply: undefined, woken: [] };

/** Who says hello, goodbye or that there is work writes nothing that is part of a state, and looks at no answer. */
const presence: Outcome = {
  reply: { rows: '[{"answer":"hello"}]', command: "SELECT", rowCount: 1 },
  woken: [],
};
