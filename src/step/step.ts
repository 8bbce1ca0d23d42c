/** What a step's function is given. */
export interface StepTools {
  /** Stable over all attempts: pass it on as Idempotency-Key or Message-ID. */
  readonly key: string;
  readonly signal: AbortSignal;
  /** When an earlier attempt started this step, if one did. */
  readonly startedBefore?: Date | undefined;
}

export type Verdict<T> = { readonly done: true; readonly value: T } | { readonly done: false } | "unknown";

export interface StepOptions<T> {
  /**
   * What to do when an attempt died after this step had started and before its result was saved:
   * `retry` (default; at least once, the provider must honour the key), `never` (at most once: the task is
   * parked as unknown), or ask: a function that looks at the provider.
   */
  readonly unknown?: "retry" | "never" | { readonly verify: (key: string) => Promise<Verdict<T>> | Verdict<T> };
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

/** Keeps the results of named parts of a task, so that a later attempt does not run them again. */
export interface Step<Tx = unknown> {
  <T>(name: string, fn: (tools: StepTools) => T | Promise<T>): Promise<T>;
  <T>(name: string, options: StepOptions<T>, fn: (tools: StepTools) => T | Promise<T>): Promise<T>;
  /** Its result commits together with what `fn` writes through `tx`. */
  transaction<T>(name: string, fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** Sleeps without holding a worker. Milliseconds, or text such as "3 days". */
  sleep(name: string, duration: number | string): Promise<void>;
  sleepUntil(name: string, date: Date): Promise<void>;
  /** Waits for a signal of this name without holding a worker. */
  waitFor<T = unknown>(name: string, options?: WaitOptions): Promise<Waited<T>>;
}
