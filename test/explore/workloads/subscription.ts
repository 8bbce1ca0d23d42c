/** A subscription, its moves and their effects, and what must hold of these when all is at rest. */
import type { Job } from "../../../src/job/job.ts";
import {
  defineMachine,
  type Machine,
  type MachineDefinition,
  type Moving,
} from "../../../src/machine/machine.ts";
import type { Engine } from "../../../src/worker/engine.ts";
import type { Session } from "../process.ts";
import type { Row } from "../rows.ts";
import type { End, Violation } from "../scene.ts";
import { type Task, writeEffect } from "./engine.ts";

export const subject = "sub_1";

/** Longer than the longest pause: who was stopped with the first timer goes on while the second one runs. */
export const unpaidMs = 100_000;

type State = "active" | "past_due" | "canceled";
/** By events and jobs, on behalf of a task; and by the timer, which hands nothing over. */
type Moves = { readonly fail: Task; readonly pay: Task; readonly cancel: undefined };
export type Subscription = Machine<State, Moves, Session>;

/** What a move on behalf of a task writes is a row; that of the timer enqueues a job. */
export function defineSubscription(engine: Engine<Session>, goodbye: Job<string>): Subscription {
  const row = ({ tx, version, data }: Moving<Task, Session>): Promise<void> =>
    writeEffect(tx, `effect of v${version}`, data);
  return defineMachine<State, Moves, Session>(engine, "subscription", {
    ...shape,
    moves: {
      fail: { ...shape.moves.fail, run: row },
      pay: { ...shape.moves.pay, run: row },
      cancel: {
        ...shape.moves.cancel,
        run: ({ enqueue, version }) => enqueue(goodbye, subject, { key: `v${version}` }),
      },
    },
  });
}

const shape = {
  initial: "active",
  states: { active: {}, past_due: { after: { [`${unpaidMs} ms`]: "cancel" } }, canceled: {} },
  moves: {
    fail: { from: ["active"], to: "past_due" },
    pay: { from: ["past_due"], to: "active" },
    cancel: { from: ["past_due"], to: "canceled" },
  },
} as const satisfies MachineDefinition<State, Moves, Session>;

/** Moves in the transaction of a task, and writes down where it may not. */
export async function moveBy(
  machine: Subscription,
  move: "fail" | "pay",
  { tx, task }: { tx: Session; task: Task },
): Promise<void> {
  const { outcome } = await machine.move(subject, move, { tx, cause: task, data: task });
  if (outcome === "refused") await writeEffect(tx, `${task.key} refused`, task);
}

/** A move happens once, from a state that allows it, and its effects happen with it. */
export function movesAreSound(end: End): Violation[] {
  const history = end.rows.of("onceward.move");
  const state = end.rows.of("onceward.machine").find((one) => one["subject"] === subject)?.["state"];
  return [
    ...history.flatMap(forbidden),
    ...effects(end, history),
    ...facts(end, history),
    ...(state === "past_due"
      ? [{ invariant: "I1", what: `${subject} is unpaid, and no timer is left` }]
      : []),
  ];
}

function forbidden({ move, from_state, to_state }: Row): Violation[] {
  const { from, to } = shape.moves[move as keyof Moves] as { from: readonly string[]; to: string };
  if (from.includes(from_state!) && to === to_state) return [];
  return [{ invariant: "I2", what: `${move} moved ${subject} from ${from_state} to ${to_state}` }];
}

/** One for every move, and none without one. */
function effects({ rows }: End, history: readonly Row[]): Violation[] {
  const written = [
    ...rows.of("app.effect").map((row) => row["name"]!),
    ...rows.of("onceward.task").map((task) => `${task["scope"]} ${task["key"]}`),
  ].filter((name) => name.startsWith("effect of ") || name.startsWith("job/goodbye "));
  const wanted = history.map(({ move, version }) =>
    move === "cancel" ? `job/goodbye v${version}` : `effect of v${version}`,
  );
  return [
    ...wanted
      .filter((name) => !written.includes(name))
      .map((name) => ({ invariant: "I1", what: `a move has no "${name}"` })),
    ...written
      .filter((name) => !wanted.includes(name))
      .map((name) => ({ invariant: "I2", what: `there is "${name}", and no such move` })),
  ];
}

/** Whatever is done has moved the subject once, or was refused. */
function facts({ rows }: End, history: readonly Row[]): Violation[] {
  const written = rows.of("app.effect").map((row) => row["name"]);
  return rows
    .of("onceward.task")
    .filter(({ key, state }) => key!.startsWith("fact_") && state === "done")
    .flatMap(({ scope, key }) => {
      const moved = history.filter(({ cause }) => cause === `${scope} ${key}`).length;
      const refused = written.filter((name) => name === `${key} refused`).length;
      if (moved + refused === 1) return [];
      const invariant = moved + refused === 0 ? "I1" : "I2";
      return [
        { invariant, what: `${key} is done: it moved ${moved} times, and was refused ${refused} times` },
      ];
    });
}
