import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import type { MachineDefinition } from "./definition.ts";

/** Names are part of scopes and keys, where a space separates. */
const nameShape = /^[\w.:-]{1,100}$/;
/** What the ledger takes as a subject, in bytes; its timers' keys hold more than the subject. */
const maxSubjectBytes = 512;

export interface Timer {
  readonly move: string;
  /** As it was declared. */
  readonly after: string;
  readonly delayMs: number;
}

type AnyDefinition<Tx> = MachineDefinition<string, Record<string, unknown>, Tx>;

/** Refuses a definition that could not work, and reads the timers of its states. */
export function readDefinition<Tx>(
  name: string,
  definition: AnyDefinition<Tx>,
): ReadonlyMap<string, readonly Timer[]> {
  const { initial, states, moves } = definition;
  const refuse = (why: string): never => {
    throw new OncewardError("config_invalid", `The machine ${name}: ${why}`);
  };
  for (const word of [name, ...Object.keys(states), ...Object.keys(moves)]) {
    if (!nameShape.test(word)) refuse(`"${word}" is no name; use 1 to 100 letters, digits and _ . : -`);
  }
  const known = (state: string): void => {
    if (!Object.hasOwn(states, state)) refuse(`"${state}" is none of its states.`);
  };
  known(initial);
  for (const [move, { from, to, restart }] of Object.entries(moves)) {
    [...from, to].forEach(known);
    if (from.length === 0) refuse(`the move ${move} comes from no state, so it can never happen.`);
    if (restart && !from.includes(to))
      refuse(`${move} restarts timers, but is no move from a state to itself.`);
  }
  if (states[initial]?.after) {
    refuse(
      `its initial state ${initial} has timers, but nobody enters it: subjects never seen are in it. Add a move out of it.`,
    );
  }
  return new Map(
    Object.entries(states).map(([state, { after = {} }]) => {
      const timers = Object.entries(after).map(([duration, move]) => {
        const delayMs = milliseconds(duration);
        if (delayMs === 0) refuse(`${state}: a timer has a duration above 0.`);
        if (!Object.hasOwn(moves, move))
          refuse(`${state}: after ${duration} comes ${move}, which is none of its moves.`);
        if (!moves[move]?.from.includes(state))
          refuse(`${state}: after ${duration} comes ${move}, which is no move from ${state}.`);
        return { move, after: duration, delayMs };
      });
      return [state, timers];
    }),
  );
}

export function checkSubject(subject: string): void {
  const bytes = typeof subject === "string" && subject.isWellFormed() ? Buffer.byteLength(subject) : 0;
  if (bytes >= 1 && bytes <= maxSubjectBytes && !subject.includes("\0")) return;
  throw new OncewardError(
    "key_invalid",
    `The subject of a machine is text of 1 to ${maxSubjectBytes} bytes, without NUL and lone surrogates.`,
  );
}
