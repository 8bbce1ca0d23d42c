/** Random moves of three callers at once, while time jumps and timers fire, against what a machine promises. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { milliseconds } from "../../src/duration.ts";
import {
  defineMachine,
  type Machine,
  type Moved,
  type Moving,
  type PastMove,
} from "../../src/machine/machine.ts";
import { type Bench, describeOn, type Queries } from "./support.ts";

const minute = 60_000;
const hour = 60 * minute;

const run = ({ tx, subject, version }: Moving<undefined, Queries>): unknown =>
  tx.query("insert into random_effect values ($1, $2)", [subject, version]);

/** Whoever is left alone comes to rest in `done`, by timers. */
const definition = {
  initial: "new",
  states: {
    new: {},
    open: { after: { "1 hour": "nudge", "2 hours": "hold" } },
    held: { after: { "30 minutes": "poke", "90 minutes": "poke", "3 hours": "finish" } },
    done: {},
  },
  moves: {
    start: { from: ["new"], to: "open", run },
    nudge: { from: ["open"], to: "open", run },
    poke: { from: ["held"], to: "held", run },
    hold: { from: ["open"], to: "held", run },
    back: { from: ["held"], to: "open", run },
    again: { from: ["held"], to: "held", restart: true, run },
    finish: { from: ["open", "held"], to: "done", run },
    reopen: { from: ["done"], to: "open", run },
  },
} as const;

type State = keyof typeof definition.states;
type Name = keyof typeof definition.moves;
type Moves = { [N in Name]: undefined };
type Random = Machine<State, Moves, Queries>;
const names = Object.keys(definition.moves) as Name[];
const timersOf = (state: State): Record<string, Name> => {
  const declared: { after?: Record<string, Name> } = definition.states[state];
  return declared.after ?? {};
};
const enters = ({ move, from, to }: PastMove<State, Name>): boolean => from !== to || move === "again";

interface Call {
  readonly subject: number;
  readonly move: Name;
  /** Inside a transaction of the caller, which may be rolled back. */
  readonly within: "own" | "caller's" | "rolled back";
  /** Only at the version that was seen last. */
  readonly careful: boolean;
}
interface Round {
  /** What each caller does, one after another. */
  readonly callers: readonly (readonly Call[])[];
  /** How far the time jumps while they do it. */
  readonly jump: number;
  readonly settle: boolean;
}
interface Answered {
  readonly subject: string;
  readonly move: Name;
  readonly version: number | undefined;
  readonly answer: Moved<State>;
}

const call: fc.Arbitrary<Call> = fc.record({
  subject: fc.nat(1),
  move: fc.constantFrom(...names, "start", "reopen"),
  within: fc.constantFrom("own", "own", "caller's", "rolled back"),
  careful: fc.boolean(),
});
const round: fc.Arbitrary<Round> = fc.record({
  callers: fc.array(fc.array(call, { maxLength: 4, size: "max" }), { minLength: 3, maxLength: 3 }),
  jump: fc.constantFrom(0, 0, 20 * minute, 31 * minute, 61 * minute, 2 * hour, 4 * hour),
  settle: fc.boolean(),
});

describeOn("newest", "a machine under random moves", (bench) => {
  it("has a history without gaps that its moves allow, and fires each timer of an entered state at most once", async () => {
    const machine: Random = defineMachine(bench().engine, "random", definition);
    await bench().rows("create table random_effect (subject text, version integer)");
    await bench().engine.start();
    let runs = 0;
    let moved = 0;
    let fired = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 2, maxLength: 10, size: "max" }), async (rounds) => {
        const subjects = [`${++runs}`, `${runs} v1`];
        const answers = await play(bench(), machine, subjects, rounds);
        for (const subject of subjects) {
          const history = await machine.history(subject);
          checkPath(history);
          checkAnswers(
            history,
            answers.filter((one) => one.subject === subject),
            machine.name,
          );
          checkTimers(history, machine.name);
          await checkRest(bench(), machine, subject, history);
          moved += history.length;
          fired += history.filter(({ cause }) => cause !== null).length;
        }
      }),
      { numRuns: 40, endOnFailure: true },
    );
    console.log(`${runs} runs, ${moved} moves, ${fired} of them by timers`);
    expect(moved).toBeGreaterThan(fired);
    expect(fired).toBeGreaterThan(0);
  });
});

async function play(
  bench: Bench,
  machine: Random,
  subjects: string[],
  rounds: readonly Round[],
): Promise<Answered[]> {
  const answers: Answered[] = [];
  for (const { callers, jump, settle } of rounds) {
    await Promise.all([
      ...callers.map(async (calls) => {
        for (const one of calls) {
          const answered = await perform(bench, machine, subjects[one.subject]!, one);
          if (answered) answers.push(answered);
        }
      }),
      bench.advance(jump).then(() => bench.engine.worker.wake()),
    ]);
    if (settle) await bench.settle();
  }
  return answers;
}

/** Undefined where it was undone on purpose. */
async function perform(
  bench: Bench,
  machine: Random,
  subject: string,
  call: Call,
): Promise<Answered | undefined> {
  const { move, within, careful } = call;
  const version = careful ? (await machine.state(subject)).version : undefined;
  if (within === "own")
    return { subject, move, version, answer: await machine.move(subject, move, { version }) };
  const regret = new Error("rolled back on purpose");
  try {
    const answer = await bench.database.transaction(async (tx) => {
      const told = await machine.move(subject, move, { tx, version });
      if (within === "rolled back") throw regret;
      return told;
    });
    return { subject, move, version, answer };
  } catch (error) {
    if (error !== regret) throw error;
    return undefined;
  }
}

function checkPath(history: PastMove<State, Name>[]): void {
  let state: State = definition.initial;
  for (const [i, { version, move, from, to }] of history.entries()) {
    expect(version).toBe(i + 1);
    expect(from).toBe(state);
    expect(definition.moves[move].from).toContain(from);
    expect(to).toBe(definition.moves[move].to);
    state = to;
  }
}

/** Who moved is in the history, once; who was refused is told a state that it was in, and that did not allow it. */
function checkAnswers(history: PastMove<State, Name>[], answers: Answered[], name: string): void {
  const versions = answers
    .filter(({ answer }) => answer.outcome === "moved")
    .map(({ answer }) => answer.version);
  const called = history.filter(({ cause }) => !cause?.startsWith(`machine/${name} `));
  expect(versions.toSorted((a, b) => a - b)).toEqual(called.map(({ version }) => version));
  for (const { move, version, answer } of answers) {
    const before = answer.outcome === "moved" ? answer.version - 1 : answer.version;
    const state = history[before - 1]?.to ?? definition.initial;
    const allowed = (definition.moves[move].from as readonly State[]).includes(state);
    if (answer.outcome === "moved") {
      expect(history[answer.version - 1]).toMatchObject({ move, from: answer.from, to: answer.state });
      expect(version ?? before).toBe(before);
    } else {
      expect(answer.state).toBe(state);
      expect(allowed && (version ?? before) === before).toBe(false);
    }
  }
}

/** A timer fires once, in the state that set it, before that is left or entered again, and not before its time. */
function checkTimers(history: PastMove<State, Name>[], name: string): void {
  const fired = history.filter(({ cause }) => cause?.startsWith(`machine/${name} `));
  expect(new Set(fired.map(({ cause }) => cause)).size).toBe(fired.length);
  for (const { cause, version, move, from, at } of fired) {
    const [, entered, declared, after] = / v(\d+) (\w+) after ([\w ]+)$/.exec(cause ?? "") ?? [];
    const entry = history[Number(entered) - 1]!;
    expect(enters(entry)).toBe(true);
    expect(entry.to).toBe(from);
    expect(history.slice(Number(entered), version - 1).some(enters)).toBe(false);
    expect(declared).toBe(move);
    expect(timersOf(from)[after!]).toBe(move);
    expect(at.getTime() - entry.at.getTime()).toBeGreaterThanOrEqual(milliseconds(after!) - 1);
  }
}

/** Its effects took place once a move; and left alone, its timers bring it to rest. */
async function checkRest(
  bench: Bench,
  machine: Random,
  subject: string,
  history: PastMove<State, Name>[],
): Promise<void> {
  const rows = await bench.rows("select version from random_effect where subject = $1 order by version", [
    subject,
  ]);
  expect(rows.slice(0, history.length).map((row) => row["version"])).toEqual(
    history.map(({ version }) => version),
  );
  for (let i = 0; i < 40; i++) {
    const { state, timers } = await machine.state(subject);
    if (timers.length === 0) {
      expect(["new", "done"]).toContain(state);
      return;
    }
    await bench.pass(20 * minute);
  }
  expect(await machine.state(subject)).toMatchObject({ timers: [] });
}
