import type { Queryable } from "../database/database.ts";
import { milliseconds } from "../duration.ts";
import { Fatal, messageOf, OncewardError } from "../errors.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import { type Finish, type Run, withSignal } from "../worker/lane.ts";
import { withPlace } from "../worker/room.ts";
import { Attempt, type KnownStep } from "./attempt.ts";
import { stepOtherKind, warnUnasked } from "./changed.ts";
import { stepKey } from "./key.ts";
import { NotDone } from "./outcome.ts";
import type { Step, StepOptions, StepTools } from "./step.ts";
import { decodeValue, encodeValue, keep, type Kept } from "./value.ts";
import { waits } from "./wait.ts";

export interface Steps<Tx> {
  readonly step: Step<Tx>;
  /**
   * Race the function against it. It resolves when the attempt sleeps or waits and rejects when it must not go
   * on (an unknown outcome, a lost claim). The function is then left where it stands, so that no try/catch of
   * its own can take a suspension for a failure.
   */
  readonly suspended: Promise<Finish>;
  /** Call it when the function has returned or thrown, before telling the ledger: steps in flight finish and are saved. */
  ended(how: "returned" | "threw"): Promise<void>;
}

/** The steps of one attempt. Lanes use `runSteps`, which does the race. */
export function makeStep<Tx>(engine: Engine<Tx>, task: ClaimedTask, run: Run): Steps<Tx> {
  const attempt = new Attempt(task, run);
  const toolsOf = (name: string, known?: KnownStep): StepTools => {
    const startedBefore = known?.state === "started" ? new Date(known.startedAt) : undefined;
    return withSignal({ key: stepKey(task, name), startedBefore }, run);
  };

  function step<T>(name: string, ...rest: [Fn<T>] | [StepOptions<T>, Fn<T>]): Promise<T> {
    const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
    return attempt.ask(name, async (known) => {
      const settled = settledOf<T>(name, known);
      if (settled) return settled.value;
      if (run.dryRun) return attempt.stop(run.dryRun.stopAt(name, stepKey(task, name)));
      const policy = policyOf(options);
      if (known?.state === "started") {
        const found = await judge(attempt, name, known, policy);
        if (found) return found.value as T;
      }
      if (policy.record) await attempt.save(name, "started");
      // A process that was paused knows nothing yet of who took over: it must not call the world outside. Also
      // after saving: the answer may have come before the pause, and be read after it.
      await run.confirm();
      let value: T;
      try {
        value = await fn(toolsOf(name, known));
      } catch (error) {
        throw await failed(attempt, name, policy, error);
      }
      let result: Kept;
      try {
        result = kept(name, value);
      } catch (error) {
        attempt.keepFailure(name, encodeValue(error));
        throw error;
      }
      await attempt.save(name, "done", result.text);
      return result.value as T;
    });
  }

  function transaction<T>(name: string, fn: (tx: Tx, tools: StepTools) => T | Promise<T>): Promise<T> {
    return attempt.ask(name, async (known) => {
      const settled = settledOf<T>(name, known);
      if (settled) return settled.value;
      let result: Kept;
      let told = false;
      try {
        const { database } = engine;
        const work = async (tx: Tx, ledger: Queryable): Promise<Kept> => {
          const made = kept(name, await fn(tx, toolsOf(name, known)));
          const { scope, key, attempt: number } = task;
          // The last statement: it holds the claim against takers until the commit.
          const verbs = engine.ledger.within(ledger);
          told = true;
          await verbs.saveStepLast({ scope, key, attempt: number, name, state: "done", value: made.text });
          return made;
        };
        result = await withPlace(engine.room, run, database.abortable, () =>
          database.transaction(work, { signal: run.signal }),
        );
      } catch (error) {
        // Not where the function itself threw such an error, of another task.
        if (told && error instanceof OncewardError && error.code === "claim_lost") throw attempt.lost();
        throw await failed(attempt, name, policyOf({}), error);
      }
      attempt.saved(name, "done", result.text);
      return result.value as T;
    });
  }

  return {
    step: Object.assign(step, { transaction }, waits(attempt)) as Step<Tx>,
    suspended: attempt.suspended,
    async ended(how) {
      await attempt.close();
      const unasked = how === "returned" ? attempt.unasked() : [];
      if (unasked.length > 0) warnUnasked(task.scope, unasked);
    },
  };
}

type Fn<T> = (tools: StepTools) => T | Promise<T>;

/** What an earlier call has settled for good. */
function settledOf<T>(name: string, known: KnownStep | undefined): { value: T } | undefined {
  if (known?.state === "waiting") throw stepOtherKind(name);
  if (known?.state === "done") return { value: decodeValue(known.value) as T };
  // Without a value it is known that nothing happened, and that it may run again.
  if (known?.state === "failed" && known.value !== null) throw decodeValue(known.value);
  return undefined;
}

interface Policy {
  /** Write down that the step has started before its function is called. */
  readonly record: boolean;
  readonly verify: ((key: string) => unknown) | undefined;
  /** A step that started earlier may be repeated with the same key until so long after its first start. */
  readonly repeatForMs: number;
}

function policyOf<T>(options: StepOptions<T>): Policy {
  const { unknown = "retry", keyLasts } = options;
  const verify = typeof unknown === "object" ? unknown.verify : undefined;
  if (keyLasts !== undefined) {
    if (unknown === "never") {
      throw new OncewardError(
        "config_invalid",
        "A step with unknown: 'never' is not repeated, however long its key lasts.",
      );
    }
    return { record: true, verify, repeatForMs: milliseconds(keyLasts) };
  }
  const retry = unknown === "retry";
  return { record: !retry, verify, repeatForMs: retry ? Number.POSITIVE_INFINITY : 0 };
}

/** The step was started and its result is not known: what now? Its value, or undefined where it is to run. */
async function judge(
  attempt: Attempt,
  name: string,
  known: KnownStep,
  policy: Policy,
): Promise<{ value: unknown } | undefined> {
  const age = attempt.now() - known.startedAt;
  if (age < policy.repeatForMs) return undefined;
  if (!policy.verify) {
    const why = policy.repeatForMs > 0 ? ", and the provider has forgotten its key by now" : "";
    return attempt.stop(
      unknownOutcome(name, `An earlier attempt started it and did not come to save its result${why}.`),
    );
  }
  const verdict = (await policy.verify(stepKey(attempt.task, name))) as
    | "unknown"
    | { done: boolean; value?: unknown };
  if (verdict === "unknown") return attempt.stop(unknownOutcome(name, "The provider could not tell either."));
  if (!verdict.done) return undefined;
  const result = kept(name, verdict.value);
  await attempt.save(name, "done", result.text);
  return result;
}

/** The step's function threw. What does that say about the world, and what must be kept of it? */
async function failed(attempt: Attempt, name: string, policy: Policy, error: unknown): Promise<unknown> {
  if (error instanceof Fatal || error instanceof NotDone) {
    if (policy.record) await attempt.save(name, "failed");
    if (error instanceof Fatal) attempt.keepFailure(name, encodeValue(error));
    return error;
  }
  if (policy.repeatForMs > 0 || policy.verify) {
    // So that the next attempt, which finds what came after it done, knows that this one was not left out.
    if (!policy.record) attempt.keepFailure(name);
    return error;
  }
  return attempt.stop(unknownOutcome(name, `It failed after it had started: ${messageOf(error)}`, error));
}

function unknownOutcome(name: string, why: string, cause?: unknown): OncewardError {
  return new OncewardError(
    "outcome_unknown",
    `Nobody knows whether step "${name}" took effect. ${why} Look at the provider, say what became of it ` +
      "(resolve: done or not done), and replay the task.",
    { cause },
  );
}

/** A value that cannot be kept ends the task: its effect has taken place, and trying again would repeat it. */
function kept(name: string, value: unknown): Kept {
  try {
    return keep(value);
  } catch (error) {
    throw new Fatal(`The result of step "${name}" cannot be kept. ${messageOf(error)}`, { cause: error });
  }
}
