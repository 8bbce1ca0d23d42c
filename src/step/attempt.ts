import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";
import type { ClaimedTask, StepState, StepToSave } from "../ledger/task.ts";
import type { Finish, Run } from "../worker/lane.ts";
import { stepsChanged } from "./changed.ts";

/** A step as this attempt knows it; times are in ms of the database's clock. */
export interface KnownStep {
  readonly state: StepState;
  readonly value: string | null;
  readonly startedAt: number;
}

/** What the attempt could give its place away for: a time (of the database, or from now), a signal, or both. */
export interface Wait {
  readonly until?: { readonly at: number } | { readonly inMs: number } | undefined;
  readonly signal?: string | undefined;
}

/** Pauses between tries to save a result while the database is away; the lease bounds their number. */
const savePausesMs = [50, 250, 1_000, 2_500];

const inStep = new AsyncLocalStorage<Attempt>();

/**
 * What one attempt knows of its steps: what earlier attempts left, what it has asked for, what is in
 * flight, and whether it has to end before its function does.
 */
export class Attempt {
  readonly task: ClaimedTask;
  readonly run: Run;
  /** Resolves when the attempt sleeps or waits; rejects when it must not go on. The function is left where it stands. */
  readonly suspended: Promise<Finish>;
  readonly #began = performance.now();
  readonly #known: Map<string, KnownStep>;
  /** What was asked for in this attempt; false where it ended in an error and may be asked for again. */
  readonly #asked = new Map<string, boolean>();
  /** Failures that the function has not gone on from yet; see `keepFailure`. */
  readonly #failures = new Map<string, string | undefined>();
  readonly #waits: Wait[] = [];
  readonly #idle: (() => void)[] = [];
  #inFlight = 0;
  #parallel = false;
  #ended = false;
  #error: OncewardError | undefined;
  #keeping: Promise<void> | undefined;
  #suspend!: (finish: Finish) => void;
  #stop!: (error: unknown) => void;

  constructor(task: ClaimedTask, run: Run) {
    this.task = task;
    this.run = run;
    this.#known = new Map(
      task.steps.map(({ name, state, value, started_at }) => [
        name,
        { state, value, startedAt: Date.parse(started_at) },
      ]),
    );
    this.suspended = new Promise((resolve, reject) => {
      this.#suspend = resolve;
      this.#stop = reject;
    });
    // Whoever races the function against it may be done before it rejects.
    this.suspended.catch(() => undefined);
  }

  /**
   * The database's time as well as it can be known without asking: when it gave us the claim, and the time
   * since then by our own steady clock.
   */
  now(): number {
    const { claimedAt } = this.task;
    const elapsed = performance.now() - this.#began;
    return claimedAt === undefined ? Date.now() : Date.parse(claimedAt) + elapsed;
  }

  /** Has this time of the database come? Never too early: a task that was recorded here has no time of the database. */
  reached(time: number): boolean {
    return this.task.claimedAt !== undefined && time <= this.now();
  }

  /** Runs what one call of a step does, from the question what is known of it to its end. */
  async ask<T>(name: string, work: (known: KnownStep | undefined) => Promise<T>): Promise<T> {
    this.#check(name);
    if (this.#ended) return never();
    if (this.#inFlight++ > 0) this.#parallel = true;
    this.#asked.set(name, true);
    try {
      // Tried again at once, it has not been gone on from.
      if (this.#failures.get(name) === undefined) this.#failures.delete(name);
      await this.#keepFailures();
      const known = this.#known.get(name);
      if (!known) await this.#checkOrder(name);
      return await inStep.run(this, () => work(known));
    } catch (error) {
      this.#asked.set(name, false);
      throw error;
    } finally {
      this.#settled();
    }
  }

  /** Saves a step for this attempt, however long the database is away while the claim holds. */
  async save(name: string, state: StepState, value?: string): Promise<void> {
    const { scope, key, attempt } = this.task;
    const saved = await this.#persist({ scope, key, attempt, name, state, value });
    if (saved === "lost") throw this.lost();
    this.saved(name, state, value);
  }

  /** The step was saved, here or within somebody's transaction. */
  saved(name: string, state: StepState, value?: string): void {
    const startedAt = this.#known.get(name)?.startedAt ?? this.now();
    this.#known.set(name, { state, value: value ?? null, startedAt });
  }

  /** The claim is gone: nothing of this attempt counts any more, and no step of it starts. */
  lost(): OncewardError {
    const error = new OncewardError(
      "claim_lost",
      "This attempt has lost its claim; another one has taken over.",
    );
    this.#ended = true;
    this.#stop(error);
    return error;
  }

  /**
   * A failure is kept as soon as the function, having caught it, goes on to another step. A final one, with its
   * error: later attempts must take the same way. One that ends the task is not kept, so that reviving it tries again.
   * Any other, without: later attempts run the step again, in its place.
   */
  keepFailure(name: string, error?: string): void {
    this.#failures.set(name, error);
  }

  /** The attempt ends with this error, whatever the function would make of it; called by a step. Never settles. */
  stop(error: OncewardError): Promise<never> {
    this.#ended = true;
    this.#error = error;
    this.#settled();
    return never();
  }

  /** The attempt ends once nothing else is in flight, and goes on later; called by a step. Never settles. */
  wait(wait: Wait): Promise<never> {
    this.#waits.push(wait);
    this.#settled();
    return never();
  }

  /** The function has ended. What it left in flight is let finish and save; nothing new starts. */
  async close(): Promise<void> {
    this.#ended = true;
    if (this.#inFlight > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Steps which earlier attempts finished and this one has not asked for. */
  unasked(): string[] {
    return [...this.#known]
      .filter(([name, { state }]) => state === "done" && !this.#asked.has(name))
      .map(([name]) => name);
  }

  #check(name: string): void {
    if (
      typeof name !== "string" ||
      name === "" ||
      Buffer.byteLength(name) > 255 ||
      name.includes("\0") ||
      !name.isWellFormed()
    ) {
      throw new OncewardError(
        "value_invalid",
        "A step's name is text of 1 to 255 bytes, without NUL and lone surrogates.",
      );
    }
    if (inStep.getStore() === this) {
      throw new OncewardError(
        "step_nested",
        `Step "${name}" was asked for inside another step. A step is one unit that runs again as a whole: ` +
          "put them one after the other.",
      );
    }
    if (this.#asked.get(name)) {
      throw new OncewardError(
        "step_duplicate",
        `Step "${name}" was asked for twice in one attempt. A name stands for one result: give each its own, ` +
          "for instance `mail ${user.id}` in a loop.",
      );
    }
  }

  /** Where all goes one after the other, what was finished before comes before what is new. */
  async #checkOrder(name: string): Promise<void> {
    if (this.unasked().length === 0) return;
    // What runs beside it is asked for in this turn.
    await new Promise(setImmediate);
    const unasked = this.unasked();
    if (!this.#parallel && unasked.length > 0) throw stepsChanged(name, unasked);
  }

  async #keepFailures(): Promise<void> {
    if (this.#failures.size === 0 && !this.#keeping) return;
    const save = async (): Promise<void> => {
      for (const [name, error] of this.#failures) {
        this.#failures.delete(name);
        await this.save(name, "failed", error);
      }
    };
    this.#keeping ??= save().finally(() => (this.#keeping = undefined));
    await this.#keeping;
  }

  async #persist(step: StepToSave): Promise<"saved" | "kept" | "lost"> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.run.ledger.saveStep(step);
      } catch (error) {
        if (!(error instanceof OncewardError) || !error.retry) throw error;
        this.run.throwIfAborted();
        await new Promise((resolve) =>
          setTimeout(resolve, savePausesMs[Math.min(tries, savePausesMs.length - 1)]),
        );
      }
    }
  }

  /** One step less is in flight. What it leaves behind has to be saved before the attempt ends. */
  #settled(): void {
    this.#inFlight--;
    if (this.#inFlight > 0) return;
    if (this.#error) this.#stop(this.#error);
    for (const resolve of this.#idle.splice(0)) resolve();
    if (this.#waits.length > 0) setImmediate(() => this.#suspendIfIdle());
  }

  #suspendIfIdle(): void {
    // What finished beside the wait may have gone on to its next step meanwhile.
    if (this.#inFlight > 0 || this.#ended) return;
    this.#ended = true;
    const signal = this.#waits.find((wait) => wait.signal !== undefined)?.signal;
    this.#suspend({
      finish: "defer",
      until: { ...this.#earliest(), ...(signal !== undefined && { signal }) },
    });
  }

  #earliest(): { at: Date } | { delayMs: number | "forever" } {
    const now = this.now();
    const untils = this.#waits.flatMap(({ until }) => (until ? [until] : []));
    const inMs = (until: (typeof untils)[number]): number => ("at" in until ? until.at - now : until.inMs);
    const first = untils.toSorted((a, b) => inMs(a) - inMs(b))[0];
    if (!first) return { delayMs: "forever" };
    return "at" in first ? { at: new Date(first.at) } : { delayMs: first.inMs };
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}
