/**
 * What must hold whatever happens: I1 to I10. Most is checked when a schedule has come to rest; I4 and parts of
 * I1 and I6 at every step from one state of the database to the next.
 */
import { leaseMs, longestRecoveryMs } from "./durations.ts";
import type { Statement } from "./live.ts";
import { machineViolations } from "./machines.ts";
import { verbOf, type Write, writesOf } from "./params.ts";
import type { Action } from "./place.ts";
import type { Row, Rows } from "./rows.ts";
import { type End, personal, type Violation, type Workload } from "./scene.ts";

type Check = (end: End, workload: Workload) => readonly string[];

const parked = new Set(["dead", "unknown", "cancelled", "ignored"]);

export const invariants: Readonly<Record<string, Check>> = {
  /** Nothing lost: what was acknowledged is done, with all its effects, or parked with a reason. */
  I1({ deliveries, rows, providers }, { owes, forgets }) {
    const tasks = rows.of("onceward.task");
    const lost = deliveries
      .filter(({ status = 0, task }) => task && status >= 200 && status < 300 && !find(tasks, task))
      .filter(() => !forgets)
      .map(({ event }) => `${event} was acknowledged and is not in the ledger`);
    const stuck = tasks
      .filter((task) => !["done", "waiting", "running"].includes(task["state"]!))
      .filter((task) => !parked.has(task["state"]!) || task["reason"] === null)
      .map((task) => `${nameOf(task)} is ${task["state"]}, and nobody knows why`);
    const undone = tasks
      .filter((task) => task["state"] === "done")
      .flatMap((task) => {
        const { writes = [], calls = [] } = owes?.(task) ?? {};
        const unwritten = writes.filter((name) => count(rows, name) === 0);
        const uncalled = calls.filter(
          ([provider, what]) => (providers.get(provider)?.effects(what) ?? 0) === 0,
        );
        return [...unwritten, ...uncalled.map(([, what]) => what)].map(
          (what) => `${nameOf(task)} is done without "${what}"`,
        );
      });
    return [...lost, ...stuck, ...undone];
  },

  /** No double database effect: what a task writes is there once, however often the task was tried. */
  I2({ rows }, { repeats }) {
    const names = new Set(rows.of("app.effect").map((row) => row["name"]!));
    return [...names]
      .filter((name) => count(rows, name) > (repeats?.(rows, name) ?? 1))
      .map((name) => `"${name}" was written ${count(rows, name)} times`);
  },

  /** Outside: at most one effect where the key is honoured; else at most one call after `started`; else `unknown`. */
  I3({ providers }) {
    return [...providers.values()].flatMap((provider) => provider.tooMany());
  },

  /** Bounded recovery: after the last fault all comes to rest within lease, poll and backoff. */
  I5({ recoveryMs }) {
    return recoveryMs > longestRecoveryMs ? [`it took ${recoveryMs / 1000} s to come to rest`] : [];
  },

  /** Attempts are counted before they start, each once, and bounded. */
  I6({ started, rows }) {
    const names = started.map(({ scope, key, attempt }) => `${scope} ${key} attempt ${attempt}`);
    const twice = names.filter((name, i) => names.indexOf(name) < i).map((name) => `${name} was run twice`);
    const tasks = rows.of("onceward.task");
    const uncounted = started
      .filter(({ attempt, ...task }) => attempt > Number(find(tasks, task)?.["attempt"] ?? attempt))
      .map(({ scope, key, attempt }) => `${scope} ${key} ran as attempt ${attempt}, which was never counted`);
    const unbounded = tasks
      .filter((task) => Number(task["tries"]) > Number(task["max_tries"]))
      .map((task) => `${nameOf(task)} was tried ${task["tries"]} times`);
    return [...twice, ...uncounted, ...unbounded];
  },

  /** The same key with other content is flagged and not run. */
  I7({ deliveries, rows }) {
    const conflicts = deliveries.filter(({ task, body, status = 0 }) => {
      const stored = task && find(rows.of("onceward.payload"), task);
      // Without an answer nobody knows whether it ever arrived.
      return stored && status >= 200 && status < 300 && stored["body"] !== body;
    });
    const flagged = rows.of("onceward.log").filter((entry) => entry["what"] === "conflict");
    return conflicts
      .filter(({ task }) => task && !find(flagged, task))
      .map(({ event }) => `${event} came with other content, and nobody was told`);
  },

  /** Stored bytes are the signed bytes: those of some delivery of that event. */
  I8({ deliveries, rows }) {
    return rows.of("onceward.payload").flatMap((payload) => {
      const sent = deliveries.filter(
        ({ task }) => task && task.scope === payload["scope"] && task.key === payload["key"],
      );
      if (sent.length === 0 || sent.some(({ body }) => body === payload["body"])) return [];
      return [`${nameOf(payload)} has other bytes than were sent`];
    });
  },

  /** No personal data leaves by an answer, an error, a reason or a log. */
  I9({ said, deliveries, rows }) {
    const shown = [
      ...said,
      ...deliveries.map(({ answer }) => answer ?? ""),
      ...rows.of("onceward.task").map((task) => task["reason"] ?? ""),
      ...rows.of("onceward.log").map((entry) => entry["detail"] ?? ""),
    ];
    return shown
      .filter((text) => text.includes(personal))
      .map((text) => `personal data in "${text.slice(0, 80)}"`);
  },

  /** A hot key never starves the others: they are done while it is still in the way, and nobody waited for its lease. */
  I10({ rows, faults, recoveryMs }, { hot }) {
    if (!hot) return [];
    const tasks = rows.of("onceward.task");
    const left = tasks
      .filter((task) => !hot(task) && task["state"] !== "done")
      .map((task) => `${nameOf(task)} is ${task["state"]}, left behind a hot key`);
    const late = faults.length === 0 && recoveryMs >= leaseMs ? [`others waited ${recoveryMs / 1000} s`] : [];
    const isHot = tasks.some((task) => hot(task) && task["due_at"] !== null);
    return [...left, ...late, ...(isHot ? [] : ["no key was hot in the end, so that nothing was shown"])];
  },
};

export function endViolations(end: End, workload: Workload): Violation[] {
  return Object.entries(invariants).flatMap(([invariant, check]) =>
    check(end, workload).map((what) => ({ invariant, what })),
  );
}

/** What is wrong with a step from one state of the database to the next. */
export function changeViolations(
  before: Rows,
  after: Rows,
  clockMs: number,
  actions: readonly Action[],
): Violation[] {
  const statements = actions.flatMap((action) => (action.do === "run" ? [action.statement] : []));
  const verbs = new Set(statements.map(verbOf));
  return [
    ...rowChanges(before, after, clockMs, verbs),
    ...staleWrites(before, after, statements),
    ...machineViolations(before, after),
    ...(verbs.has("replay_many") || verbs.has("cancel") ? [] : effectsOfOthers(before, after)),
  ];
}

function rowChanges(
  before: Rows,
  after: Rows,
  nowMs: number,
  verbs: ReadonlySet<string | undefined>,
): Violation[] {
  const violations: Violation[] = [];
  const tasks = after.of("onceward.task");
  for (const was of before.of("onceward.task")) {
    const is = find(tasks, was);
    const name = nameOf(was);
    if (!is) {
      if (!verbs.has("prune")) violations.push({ invariant: "I1", what: `${name} has vanished` });
      continue;
    }
    const attempts = Number(is["attempt"]) - Number(was["attempt"]);
    // A move cancels the timers of the state that it leaves, also one that runs just then.
    const onPurpose =
      verbs.has("replay_many") ||
      verbs.has("cancel") ||
      (verbs.has("move") && is["state"] === "cancelled" && is["scope"]!.startsWith("machine/"));
    if (attempts < 0) violations.push({ invariant: "I4", what: `${name}: its attempt went back` });
    if (was["state"] === "done" && is["state"] !== "done" && !verbs.has("replay_many")) {
      violations.push({ invariant: "I4", what: `${name} was done, and is ${is["state"]} again` });
    }
    if (is["state"] === "running" && was["state"] !== "running" && attempts < 1) {
      violations.push({ invariant: "I6", what: `${name} was claimed, and its attempt not counted` });
    }
    if (attempts > 0 && was["state"] === "running" && !onPurpose && Date.parse(was["due_at"]!) > nowMs) {
      violations.push({ invariant: "I4", what: `${name} was taken over before its lease ended` });
    }
  }
  const steps = after.of("onceward.step");
  for (const was of before.of("onceward.step")) {
    const is = steps.find(
      (step) => isSame(step, was) && step["name"] === was["name"] && step["generation"] === was["generation"],
    );
    if (was["state"] !== "done" || (is?.["state"] === "done" && is["value"] === was["value"])) continue;
    if (!verbs.has("prune"))
      violations.push({ invariant: "I4", what: `${nameOf(was)}: its finished step ${was["name"]} changed` });
  }
  return violations;
}

/** A write with an older attempt than the task has must change nothing of it. */
function staleWrites(before: Rows, after: Rows, statements: readonly Statement[]): Violation[] {
  const [only, ...others] = statements;
  if (!only || others.length > 0) return [];
  const writes = writesOf(only);
  const attemptOf = (write: Write): number =>
    Number(find(before.of("onceward.task"), write)?.["attempt"] ?? 0);
  // A process may hold two attempts of one task: what changes is the newer one's doing.
  const isStale = (write: Write): boolean =>
    attemptOf(write) > write.attempt &&
    !writes.some((other) => isSame(other, write) && attemptOf(other) === other.attempt);
  return writes
    .filter(isStale)
    .filter((write) =>
      ["task", "step", "result"].some(
        (table) => textOf(before, table, write) !== textOf(after, table, write),
      ),
    )
    .map((write) => ({
      invariant: "I4",
      what: `${write.scope} ${write.key}: attempt ${write.attempt} wrote, which is no longer the latest`,
    }));
}

/** What an attempt writes in its transaction commits only while it is the latest. */
function effectsOfOthers(before: Rows, after: Rows): Violation[] {
  const known = before.of("app.effect").length;
  const effects = after.of("app.effect");
  if (effects.length <= known) return [];
  return effects.flatMap((effect) => {
    if (effect["key"] === null || count(before, effect["name"]!) === count(after, effect["name"]!)) return [];
    const task = find(after.of("onceward.task"), effect as { scope: string; key: string });
    if (!task || count(before, effect["name"]!) > 0 || task["attempt"] === effect["attempt"]) return [];
    return [
      {
        invariant: "I4",
        what: `"${effect["name"]}" was committed by attempt ${effect["attempt"]}, the latest is ${task["attempt"]}`,
      },
    ];
  });
}

interface Identity {
  readonly scope?: string | null;
  readonly key?: string | null;
}

function find(rows: readonly Row[], identity: Identity): Row | undefined {
  return rows.find((row) => isSame(row, identity));
}

function isSame(a: Identity, b: Identity): boolean {
  return a.scope === b.scope && a.key === b.key;
}

function textOf(rows: Rows, table: string, identity: Identity): string {
  return JSON.stringify(rows.of(`onceward.${table}`).filter((row) => isSame(row, identity)));
}

function count(rows: Rows, name: string): number {
  return rows.of("app.effect").filter((row) => row["name"] === name).length;
}

function nameOf(row: Row): string {
  return `${row["scope"]} ${row["key"]}`;
}
