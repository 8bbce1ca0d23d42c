import type { Queryable } from "../database/database.ts";
import { asQueryable } from "../database/queryable.ts";
import { OncewardError } from "../errors.ts";
import { Tools } from "../handler/tools.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { MachineState, Moved as MovedVerb } from "../ledger/move.ts";
import type { Engine } from "../worker/engine.ts";
import type { Finish, Run } from "../worker/lane.ts";
import { checkSubject, readDefinition, type Timer } from "./check.ts";
import type { MachineDefinition, MoveDefinition } from "./definition.ts";
import type { Machine, Moved, MoveOptions, PastMove, Standing } from "./machine.ts";

/** As the rest of the code sees it: which names belong together was a matter of types. */
export type AnyDefinition<Tx> = MachineDefinition<string, Record<string, unknown>, Tx>;

/** Another timer comes first: look again after so long. The move in sql/007_machine.sql counts on it. */
const earlyPauseMs = 1_000;

interface ToMove<Tx> {
  readonly subject: string;
  readonly move: string;
  readonly options: MoveOptions<unknown, Tx>;
  /** Where a timer makes the move. */
  readonly timer?: { readonly key: string; readonly after: string };
}

/** Moves the subjects of one machine, on behalf of callers and of timers. */
export class MachineRunner<Tx> implements Machine<string, Record<string, unknown>, Tx> {
  readonly name: string;
  /** Of its timers' tasks. */
  readonly scope: string;
  readonly #engine: Engine<Tx>;
  readonly #definition: AnyDefinition<Tx>;
  readonly #timers: ReadonlyMap<string, readonly Timer[]>;

  constructor(engine: Engine<Tx>, name: string, definition: AnyDefinition<Tx>) {
    this.name = name;
    this.scope = `machine/${name}`;
    this.#engine = engine;
    this.#definition = definition;
    this.#timers = readDefinition(name, definition);
  }

  async move(subject: string, move: string, options: MoveOptions<unknown, Tx> = {}): Promise<Moved<string>> {
    checkSubject(subject);
    await this.#ready(options.tx);
    const toMove = { subject, move, options };
    const { tx } = options;
    if (tx === undefined) return this.#inOwnTransaction(toMove) as Promise<Moved<string>>;
    const queryable = asQueryable(tx);
    const moved = await this.#moveWithin(tx, queryable, toMove).catch(async (error: unknown) => {
      // Whoever swallows this error must not commit half of the move.
      await this.#engine.ledger
        .within(queryable)
        .abort(`the move ${move} of ${this.name} failed`)
        .catch(() => undefined);
      throw error;
    });
    // The word goes out when the transaction commits, and not at all if it does not.
    if (moved.due.size > 0) await this.#engine.ledger.within(queryable).wake([...moved.due]);
    return moved.answer as Moved<string>;
  }

  async state(subject: string, options: { readonly tx?: Tx } = {}): Promise<Standing<string>> {
    const known = await this.#look(subject, options.tx);
    if (!known) return { state: this.#definition.initial, version: 0, since: null, timers: [] };
    const { state, version, since, timers } = known;
    const waiting = timers.filter((timer) => timer.state === "waiting" || timer.state === "running");
    return {
      state,
      version,
      since: version === 0 ? null : new Date(since),
      timers: waiting.map(({ key, due_at }) => ({ key, at: due_at === null ? null : new Date(due_at) })),
    };
  }

  async history(subject: string, options: { readonly tx?: Tx } = {}): Promise<PastMove<string, string>[]> {
    const known = await this.#look(subject, options.tx);
    return (known?.moves ?? []).map((move) => ({ ...move, at: new Date(move.at) }));
  }

  async runTimer(task: ClaimedTask, run: Run): Promise<Finish> {
    const { subject, move, after } = JSON.parse(String(task.body)) as {
      subject: string;
      move: string;
      after: string;
    };
    const toMove = { subject, move, options: { cause: task }, timer: { key: task.key, after } };
    const answer = await this.#inOwnTransaction(toMove, async (queryable) => {
      run.throwIfAborted();
      const { scope, key, attempt } = task;
      await run.ledger.within(queryable).completeLast({ scope, key, attempt });
    });
    if (answer.outcome === "moved") return { finish: "committed" };
    if (answer.outcome === "early") return { finish: "defer", until: { delayMs: earlyPauseMs } };
    if (answer.outcome !== "gone") return { finish: "complete", result: JSON.stringify(answer) };
    const why = `the state ${answer.state} of ${this.name} has no timer ${move}`;
    // Perhaps a newer version of the application has it, and runs beside this one: that one will get it.
    if (task.tries < task.maxTries) throw new OncewardError("handler_missing", `${why}: was it removed?`);
    // For days nobody had it, so it was removed. That is nothing to mend, and no reason to be dead.
    return { finish: "complete", result: JSON.stringify({ ...answer, skipped: why }) };
  }

  /** `last` is the last statement of the transaction, where the subject moves. */
  async #inOwnTransaction(
    toMove: ToMove<Tx>,
    last?: (queryable: Queryable) => Promise<void>,
  ): Promise<MovedVerb> {
    const { answer, due } = await this.#engine.database.transaction(async (tx, queryable) => {
      const moved = await this.#moveWithin(tx, queryable, toMove);
      if (moved.answer.outcome === "moved") await last?.(queryable);
      return moved;
    });
    for (const scope of due) this.#engine.worker.announce(scope);
    return answer;
  }

  async #moveWithin(
    tx: Tx,
    queryable: Queryable,
    { subject, move, options, timer }: ToMove<Tx>,
  ): Promise<{ answer: MovedVerb; due: ReadonlySet<string> }> {
    const { initial } = this.#definition;
    const { from, to, restart, run } = timer ? this.#timedMove(move) : this.#moveNamed(move);
    const { cause, version, data } = options;
    const verbs = this.#engine.ledger.within(queryable);
    const tools = new Tools(this.#engine, verbs, cause);
    const answer = await verbs.move({
      machine: this.name,
      subject,
      move,
      from,
      to,
      initial,
      version,
      cause,
      timers: this.#timers.get(to),
      timer: timer?.key,
      restart,
    });
    if (answer.outcome === "moved" && run) {
      const { outcome: _, ...moved } = answer;
      const { enqueue, once } = tools;
      try {
        await run({ subject, ...moved, data, after: timer?.after, cause, tx, enqueue, once });
        await tools.settle();
      } finally {
        tools.close();
      }
    }
    return { answer, due: tools.due };
  }

  #moveNamed(move: string): MoveDefinition<string, unknown, Tx> {
    const { moves } = this.#definition;
    const definition = Object.hasOwn(moves, move) ? moves[move] : undefined;
    if (definition) return definition;
    throw new OncewardError(
      "handler_missing",
      `The machine ${this.name} has no move of this name. Does a newer version run beside this one?`,
    );
  }

  /** As a timer makes it: from the states that have one for it. None, where it was set by another version. */
  #timedMove(move: string): MoveDefinition<string, unknown, Tx> {
    const from = [...this.#timers].filter(([, timers]) => timers.some((timer) => timer.move === move));
    if (from.length === 0) return { from: [], to: this.#definition.initial };
    return { ...this.#moveNamed(move), from: from.map(([state]) => state) };
  }

  async #look(subject: string, tx: Tx | undefined): Promise<MachineState | null> {
    checkSubject(subject);
    await this.#ready(tx);
    const { ledger } = this.#engine;
    const verbs = tx === undefined ? ledger.verbs : ledger.within(asQueryable(tx));
    return verbs.machineState(this.name, subject);
  }

  /** One session for everybody allows no statement beside an open transaction, such as those that migrate. */
  async #ready(tx: Tx | undefined): Promise<void> {
    if (tx === undefined || !this.#engine.database.single) await this.#engine.ready();
  }
}
