/** What a step's function is given. */
export interface StepTools {
  /** Stable over all attempts: pass it on as Idempotency-Key or Message-ID. */
  readonly key: string;
  /** Aborts when the claim is lost, the deadline has passed, or the process stops. */
  readonly signal: AbortSignal;
  /** When an earlier attempt first started this step, where that was kept (see `StepOptions`). */
  readonly startedBefore?: Date | undefined;
}

/** What became of a step whose outcome was unknown, as somebody found who looked at the provider. */
export type Verdict<T> =
  | { readonly done: false }
  | (undefined extends T
      ? { readonly done: true; readonly value?: T }
      : { readonly done: true; readonly value: T })
  | "unknown";

export interface StepOptions<T> {
  /**
   * What to do when an attempt died after this step had started and before its result was saved, or when
   * its function threw and nobody can say how far it came:
   * - `retry` (default): run it again. At least once; at most one effect where the provider honours the key.
   * - `never`: at most one call. The task is parked as `unknown`, for a person to decide.
   * - `verify`: ask the provider. Done: its value is kept. Not done: it runs again. "unknown": parked.
   *
   * `never` and `verify` write down that the step has started before its function is called. An error
   * of which it is certain that nothing happened is thrown as `NotDone`; a `Fatal` says that as well.
   */
  readonly unknown?:
    | "retry"
    | "never"
    | { readonly verify: (key: string) => Promise<Verdict<T>> | Verdict<T> };
  /**
   * How long the provider remembers the key ("24 hours" for Stripe), in ms or as text. A step that an
   * earlier attempt started longer ago is not repeated blindly: it is verified, or parked as unknown.
   */
  readonly keyLasts?: number | string | undefined;
}

export interface WaitOptions {
  /** Milliseconds, or text such as "3 days". */
  readonly timeout?: number | string | undefined;
  /** What is to be approved: an answer counts only with the fingerprint of exactly this. */
  readonly of?: unknown;
}

export type Waited<T> =
  | { readonly outcome: "signalled"; readonly value: T; readonly actor: string | null }
  | { readonly outcome: "timeout" };

/**
 * Keeps the results of named parts of a task, so that a later attempt does not run them again. A name
 * stands once in a task. What a step returns goes through JSON (and Date, bigint, bytes, Map, Set, Error,
 * undefined), also in the first attempt, so that all attempts see the same.
 */
export interface Step<Tx = unknown> {
  <T>(name: string, fn: (tools: StepTools) => T | Promise<T>): Promise<T>;
  <T>(name: string, options: StepOptions<T>, fn: (tools: StepTools) => T | Promise<T>): Promise<T>;
  /** Its result commits together with what `fn` writes through `tx`: exactly once, whatever dies when. */
  transaction<T>(name: string, fn: (tx: Tx, tools: StepTools) => T | Promise<T>): Promise<T>;
  /** Sleeps without holding a worker. Milliseconds, or text such as "3 days". A crash does not start it anew. */
  sleep(name: string, duration: number | string): Promise<void>;
  sleepUntil(name: string, date: Date): Promise<void>;
  /** Waits for a signal of this name without holding a worker. */
  waitFor<T = unknown>(name: string, options?: WaitOptions): Promise<Waited<T>>;
}
