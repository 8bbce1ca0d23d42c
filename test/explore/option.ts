/** What can happen next: somebody does what it waits to do, with or without a fault, or goes on after a pause. */
import { verbOf } from "./params.ts";
import type { Op, Process } from "./process.ts";
import type { Fault } from "./scene.ts";

export interface Option {
  readonly op: Op | undefined;
  readonly fault: Fault | undefined;
  readonly resume: Process | undefined;
  /** How far from the default: 1 for going on elsewhere, 1 for a fault. */
  readonly cost: number;
}

/** Says which option to take at a point; 0 is the default. */
export type Choose = (options: readonly Option[], point: number) => number;

export interface Point {
  /** What waits to be done, by default the first. */
  readonly ready: readonly Op[];
  /** Whether the first, where that looks for work, would find some. */
  readonly finds: boolean;
  /** Those who were stopped for long enough to go on. */
  readonly resumable: readonly Process[];
  faultsOf(op: Op): readonly Fault[];
}

export function optionsAt({ ready, finds, resumable, faultsOf }: Point): Option[] {
  const options: Option[] = ready.map((op, i) => ({
    op,
    fault: undefined,
    resume: undefined,
    cost: i === 0 ? 0 : 1,
  }));
  for (const resume of resumable)
    options.push({ op: undefined, fault: undefined, resume, cost: ready.length === 0 ? 0 : 1 });
  for (const [i, op] of ready.entries()) {
    if (isPoll(op) && (i > 0 || !finds)) continue;
    for (const fault of faultsOf(op)) options.push({ op, fault, resume: undefined, cost: i === 0 ? 1 : 2 });
  }
  return options;
}

/** What can go wrong with it. `inTransaction`: one is open on its connection. */
export function faultsOf(op: Op, inTransaction: boolean): Fault[] {
  if (!op.process) return [];
  // What is not committed is gone whether a process dies before or after it.
  const all: Fault[] =
    inTransaction && !isCommit(op)
      ? ["crash before", "cut off", "pause before", "pause after"]
      : ["crash before", "crash after", "answer lost", "cut off", "pause before", "pause after"];
  if (op.kind === "outside") all.push("slow");
  return all;
}

/** A worker looks for due work. */
export function isPoll(op: Op): boolean {
  return typeof op.what !== "string" && verbOf(op.what)?.startsWith("claim_due") === true;
}

function isCommit(op: Op): boolean {
  return typeof op.what !== "string" && /^commit/i.test(op.what.text);
}
