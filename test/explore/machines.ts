/** What must hold of every machine at every step: of the history of its subjects, and of their timers. */
import type { Row, Rows } from "./rows.ts";
import type { Violation } from "./scene.ts";

export function machineViolations(before: Rows, after: Rows): Violation[] {
  const subjects = after.of("onceward.machine");
  if (subjects.length === 0) return [];
  return [
    ...subjects.flatMap((subject) => gaps(subject, after)),
    ...rewritten(before, after),
    ...strayTimers(after),
    ...movesOfEndedTimers(before, after),
  ];
}

/** Every move begins where the one before it ended, and the last one where the subject stands. */
function gaps(subject: Row, rows: Rows): Violation[] {
  const moves = rows
    .of("onceward.move")
    .filter((move) => move["name"] === subject["name"] && move["subject"] === subject["subject"])
    .toSorted((a, b) => Number(a["version"]) - Number(b["version"]));
  const isWhole =
    moves.length === Number(subject["version"]) &&
    moves.every(
      ({ version, from_state }, i) =>
        Number(version) === i + 1 && (i === 0 || from_state === moves[i - 1]!["to_state"]),
    ) &&
    (moves.length === 0 || moves.at(-1)!["to_state"] === subject["state"]);
  return isWhole ? [] : [{ invariant: "I2", what: `the history of ${subject["subject"]} has a gap` }];
}

/** What has happened stays as it was. */
function rewritten(before: Rows, after: Rows): Violation[] {
  const kept = new Set(after.of("onceward.move").map((move) => JSON.stringify(move)));
  return before
    .of("onceward.move")
    .filter((move) => !kept.has(JSON.stringify(move)))
    .map(({ move, version }) => ({ invariant: "I2", what: `the move ${move} v${version} was rewritten` }));
}

/** A timer that may still move its subject is one that the subject counts on: leaving a state cancels the others. */
function strayTimers(rows: Rows): Violation[] {
  const listed = rows.of("onceward.machine").map(({ name, timers }) => `machine/${name} ${timers}`);
  return rows
    .of("onceward.task")
    .filter(({ scope, due_at }) => scope!.startsWith("machine/") && due_at !== null)
    .filter(
      ({ scope, key }) => !listed.some((one) => one.startsWith(`${scope} `) && one.includes(`"${key}"`)),
    )
    .map(({ key }) => ({
      invariant: "I4",
      what: `the timer ${key} goes on, and its subject has left the state`,
    }));
}

/** A timer moves only while it runs, and is done with that: not cancelled, and not to fire again. */
function movesOfEndedTimers(before: Rows, after: Rows): Violation[] {
  const known = new Set(before.of("onceward.move").map((move) => move["cause"]));
  const stateOf = (rows: Rows, timer: string): string | null | undefined =>
    rows.of("onceward.task").find(({ scope, key }) => `${scope} ${key}` === timer)?.["state"];
  return after
    .of("onceward.move")
    .flatMap(({ cause }) => (cause?.startsWith("machine/") && !known.has(cause) ? [cause] : []))
    .map((timer) => ({ timer, was: stateOf(before, timer), is: stateOf(after, timer) }))
    .filter(({ was, is }) => was !== "running" || is !== "done")
    .map(({ timer, was, is }) => ({
      invariant: "I4",
      what: `the timer ${timer} moved its subject; it was ${was}, and is ${is}`,
    }));
}
