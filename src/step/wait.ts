import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import { checkDate, checkMs } from "../ledger/check.ts";
import type { ToldSignal } from "../ledger/signal.ts";
import type { Verbs } from "../ledger/verbs.ts";
import type { Attempt, KnownStep, Wait } from "./attempt.ts";
import { stepOtherKind } from "./changed.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { Step, WaitOptions, Waited } from "./step.ts";
import { decodeValue, encodeValue, toTree } from "./value.ts";

/** What a step that sleeps or waits keeps, as JSON; its time counts from the step's start, by the database's clock. */
interface Waiting {
  readonly ms?: number;
  readonly until?: string;
  /** Of what is to be approved. */
  readonly fingerprint?: string;
  /** What is to be approved, for whoever is asked. */
  readonly of?: unknown;
}

/** The steps that end an attempt without ending the task. */
export function waits(attempt: Attempt): Pick<Step, "sleep" | "sleepUntil" | "waitFor"> {
  return {
    sleep: async (name, duration) => sleep(attempt, name, { ms: lasting(duration) }),
    async sleepUntil(name, date) {
      if (!(date instanceof Date)) throw new OncewardError("value_invalid", "sleepUntil takes a valid Date.");
      checkDate("sleepUntil", date);
      return sleep(attempt, name, { until: date.toISOString() });
    },
    waitFor: (name, options = {}) => waitFor(attempt, name, options),
  };
}

/** Longer than the ledger can wait is found here, and not when the attempt is to give its place away. */
function lasting(duration: number | string): number {
  const ms = milliseconds(duration);
  checkMs("A duration", ms);
  return ms;
}

function sleep(attempt: Attempt, name: string, wanted: Waiting): Promise<void> {
  return attempt.ask(name, async (known) => {
    if (known?.state === "done") return;
    // The first attempt has fixed the time, whatever the code says by now.
    const { waiting, until } = await begun(attempt, name, known, wanted);
    const wakeAt = endOf(waiting, known);
    if (wakeAt !== undefined && attempt.reached(wakeAt)) return attempt.save(name, "done");
    return attempt.wait({ until });
  });
}

function waitFor<T>(attempt: Attempt, name: string, options: WaitOptions): Promise<Waited<T>> {
  return attempt.ask(name, async (known) => {
    if (known?.state === "done") return decodeValue(known.value) as Waited<T>;
    const fingerprint = "of" in options ? fingerprintOf(options.of) : undefined;
    const timeout = options.timeout === undefined ? {} : { ms: lasting(options.timeout) };
    // An approval is for what the function asks now; where that has changed, the old one does not count.
    const approval = fingerprint === undefined ? {} : { fingerprint, of: toTree(options.of) };
    const { waiting, until } = await begun(attempt, name, known, timeout, approval);
    const { ledger } = attempt.run;
    const endsAt = endOf(waiting, known);
    let told = await signalOf(ledger.verbs, attempt, name, fingerprint);
    if (!told && endsAt !== undefined && attempt.reached(endsAt)) {
      told = await lastCall(attempt, name, JSON.stringify(waiting), fingerprint);
      if (!told) return timedOut;
    }
    if (!told) return attempt.wait({ until, signal: name });
    const waited: Waited<unknown> = {
      outcome: "signalled",
      value: decodeValue(told.value),
      actor: told.actor,
    };
    await attempt.save(name, "done", encodeValue(waited));
    return waited as Waited<T>;
  });
}

const timedOut = { outcome: "timeout" } as const;

/**
 * Keeps that the time is over, unless a signal was sent meanwhile: then that one. To save a step holds the task against
 * signals until the commit, so that whoever comes later finds the step done, and is told that it is late.
 */
async function lastCall(
  attempt: Attempt,
  name: string,
  kept: string,
  fingerprint: string | undefined,
): Promise<ToldSignal | undefined> {
  const { task, run } = attempt;
  const { ledger } = run;
  const told = await ledger.database.transaction(async (_tx, queryable) => {
    const verbs = ledger.within(queryable);
    const { scope, key, attempt: number } = task;
    const step = { scope, key, attempt: number, name };
    const [saved] = await verbs.saveSteps([{ ...step, state: "waiting", value: kept }]);
    if (saved === "lost") throw attempt.lost();
    const late = await signalOf(verbs, attempt, name, fingerprint);
    if (!late) await verbs.saveSteps([{ ...step, state: "done", value: encodeValue(timedOut) }]);
    return late;
  });
  if (!told) attempt.saved(name, "done", encodeValue(timedOut));
  return told;
}

/** What was kept when it began, or is kept now; and until when it lasts. */
async function begun(
  attempt: Attempt,
  name: string,
  known: KnownStep | undefined,
  first: Waiting,
  always: Waiting = {},
): Promise<{ waiting: Waiting; until: Wait["until"] }> {
  if (known && known.state !== "waiting") throw stepOtherKind(name);
  const waiting = { ...(known ? (JSON.parse(known.value ?? "{}") as Waiting) : first), ...always };
  const text = JSON.stringify(waiting);
  if (text !== known?.value) await attempt.save(name, "waiting", text);
  const at = endOf(waiting, known);
  if (at !== undefined) return { waiting, until: { at } };
  return { waiting, until: waiting.ms === undefined ? undefined : { inMs: waiting.ms } };
}

/** When it ends, by the database's clock; unknown in the attempt that began it, which does not know its start. */
function endOf(waiting: Waiting, known: KnownStep | undefined): number | undefined {
  if (waiting.until !== undefined) return Date.parse(waiting.until);
  return known && waiting.ms !== undefined ? known.startedAt + waiting.ms : undefined;
}

async function signalOf(
  verbs: Verbs,
  attempt: Attempt,
  name: string,
  fingerprint: string | undefined,
): Promise<ToldSignal | undefined> {
  const told = (await verbs.signals(attempt.task))[name];
  return told && (fingerprint === undefined || told.fingerprint === fingerprint) ? told : undefined;
}
