import { milliseconds } from "../duration.ts";
import { freshlyClaimed } from "../ledger/ledger.ts";
import type { ClaimedTask, NewTask, TaskState } from "../ledger/task.ts";
import { fingerprintOf } from "../step/fingerprint.ts";
import { runSteps } from "../step/run.ts";
import { decodeValue, encodeValue } from "../step/value.ts";
import type { Engine } from "../worker/engine.ts";
import type { Lane } from "../worker/lane.ts";
import { instant } from "../worker/lease.ts";
import type { ActionFunction, ActionOptions, ActionOutcome } from "./action.ts";
import { conflict, notYet, parked } from "./refusal.ts";

/** Looking again while another caller runs it: soon at first, then twice a second. */
const firstPauseMs = 10;
const longestPauseMs = 500;
/** Past the lease, for a crashed caller's claim to be seen as lapsed. */
const graceMs = 5_000;

/**
 * Runs an action once for its key, and returns its value: the first caller runs it, concurrent ones wait,
 * later ones get the kept value. One that failed is run again by the next caller, from its last finished step.
 *
 * @example
 * const charge = await runAction(engine, `charge:${orderId}`, async ({ step }) => {
 *   const intent = await step("charge", (tools) => stripe.paymentIntents.create(order, idempotencyKey(tools)));
 *   return intent.id;
 * }, { input: order });
 */
export async function runAction<Tx, T, Input = undefined>(
  engine: Engine<Tx>,
  key: string,
  fn: ActionFunction<T, Tx, Input>,
  options: ActionOptions<Input> = {},
): Promise<T> {
  const ended = await takeAction(engine, key, fn, options);
  if ("value" in ended) return ended.value;
  throw notYet(ended.outcome);
}

/** The same, and says how it came about. What is not done in time is a value here and not an error. */
export async function takeAction<Tx, T, Input = undefined>(
  engine: Engine<Tx>,
  key: string,
  fn: ActionFunction<T, Tx, Input>,
  options: ActionOptions<Input> = {},
): Promise<ActionOutcome<T>> {
  await engine.ready();
  const { ledger } = engine;
  const task = taskOf(key, options);
  const lane = laneOf(engine, fn, options);
  const patience = patienceOf(ledger.leaseMs, options);
  // Between the ledger's answer and its reading the process may stand still, and somebody else take over.
  let asked = instant();
  const recorded = await ledger.recordAndClaim(task);
  if (recorded.outcome === "conflict") throw await conflict(ledger.verbs, task);
  if (recorded.outcome === "duplicate" && recorded.state === "done") return kept(engine, task);
  let claimed: ClaimedTask | undefined;
  if (recorded.outcome === "claimed") claimed = recorded.task ?? freshlyClaimed(task, recorded.attempt);
  // What failed may be tried at once, since its caller is here. What sleeps is not due before its time.
  let early = true;
  for (;;) {
    if (claimed) {
      const ran = await engine.runHere(lane, claimed, { asked, signal: options.signal });
      if (ran.outcome === "done") return { outcome: "done", value: decodeValue(ran.result) as T };
      if (ran.outcome === "failed") throw ran.error;
      if (ran.outcome === "waiting") early = false;
    }
    asked = instant();
    const answer = await ledger.verbs.claim(task, { leaseMs: ledger.leaseMs, worker: ledger.worker, early });
    claimed = answer.outcome === "claimed" ? answer.task : undefined;
    if (answer.outcome === "claimed") continue;
    if (answer.outcome === "missing") return takeAction(engine, key, fn, options); // It was pruned this moment.
    const { state, reason, due_in_ms } = answer;
    if (state === "done") return kept(engine, task);
    if (state !== "running" && state !== "waiting") throw parked(task, state, reason);
    if (!(await patience(state, due_in_ms))) return { outcome: state };
  }
}

/** The value of an action that has been done. */
async function kept<Tx, T>(engine: Engine<Tx>, task: NewTask): Promise<ActionOutcome<T>> {
  const known = await engine.ledger.verbs.look(task);
  return { outcome: "duplicate", value: decodeValue(known?.["result"] as string | null) as T };
}

function taskOf(key: string, options: ActionOptions): NewTask {
  const { input, scope = "action", maxAttempts, cause } = options;
  return {
    scope,
    key,
    body: encodeValue(input) ?? "null",
    fingerprint: fingerprintOf(input),
    ...(maxAttempts !== undefined && { maxTries: maxAttempts }),
    ...(cause && { cause }),
  };
}

function laneOf<Tx, T, Input>(
  engine: Engine<Tx>,
  fn: ActionFunction<T, Tx, Input>,
  options: ActionOptions<Input>,
): Lane {
  const { input, scope = "action", deadline, backoff } = options;
  return {
    name: scope,
    backoff,
    deadlineMs: deadline === undefined ? undefined : milliseconds(deadline),
    run: (task, run) =>
      runSteps(engine, task, run, (tools) => {
        const { key, attempt, generation } = task;
        return fn(tools({ input: input as Input, key, attempt, generation }));
      }),
  };
}

/** Waits a little; false when there is no use in waiting any longer. */
function patienceOf(
  leaseMs: number,
  options: ActionOptions,
): (state: TaskState, dueInMs?: number) => Promise<boolean> {
  const { wait = leaseMs + graceMs, signal } = options;
  const ends = performance.now() + (wait === false ? 0 : milliseconds(wait));
  let pause = firstPauseMs;
  return async (state, dueInMs) => {
    signal?.throwIfAborted();
    const left = ends - performance.now();
    // What sleeps wakes at a known time; whoever runs it may end at any.
    if (left <= 0 || (state === "waiting" && dueInMs !== undefined && dueInMs > left)) return false;
    await new Promise((resolve) => setTimeout(resolve, Math.min(pause, left, (dueInMs ?? pause) + 1)));
    pause = Math.min(pause * 2, longestPauseMs);
    return true;
  };
}
