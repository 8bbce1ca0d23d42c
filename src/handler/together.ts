/** Events that share a transaction: whoever comes while one is under way goes along with the next. */
import { OncewardError } from "../errors.ts";
import { coalesce } from "../ledger/coalesce.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { Finish, Run } from "../worker/lane.ts";

/** An event that is to be handled, under its own claim. */
export interface Member {
  readonly task: ClaimedTask;
  readonly event: unknown;
  readonly run: Run;
}

interface Waiting extends Member {
  readonly begin: () => void;
}

export interface TogetherOptions {
  /** At most so many of them. */
  readonly max: number;
  /** At most so many transactions at once. */
  readonly transactions: number;
}

/**
 * Hands over one, or several whose transactions would have been under way at once. Where several fail, each is given
 * back for an attempt of its own, without using up a try: it must not fail by the fault of another.
 */
export function together(
  handle: (members: readonly Member[]) => Promise<Finish>,
  { max, transactions }: TogetherOptions,
): (member: Member) => Promise<Finish> {
  const share = coalesce<Waiting, Finish>(
    async (members) => {
      for (const { begin } of members) begin();
      const finish = await handle(members).catch((error: unknown) => {
        if (members.length === 1 || isOfAll(error)) throw error;
        return givenBack;
      });
      return members.map(() => finish);
    },
    { max, flushes: transactions },
  );
  return async (member) => {
    const { promise: begun, resolve: begin } = withResolvers();
    const finished = share({ ...member, begin });
    // Looked at below; until then a failure has somebody who knows of it.
    finished.catch(() => undefined);
    // To wait for the others does not count against the deadline.
    await member.run.uncounted(begun);
    return finished;
  };
}

const givenBack: Finish = { finish: "defer", until: { delayMs: 0 } };

/** The database is away: for each by itself it would be, too. A busy key or a sender that is away is the matter of one. */
function isOfAll(error: unknown): boolean {
  return (
    error instanceof OncewardError &&
    (error.code === "database_unavailable" || error.code === "pool_exhausted")
  );
}

/** What several have in common while they run as one: what ends one of them, ends all. */
export function runOf(members: readonly Member[]): Run {
  const runs = members.map(({ run }) => run);
  return runs.length === 1 ? runs[0]! : new SharedRun(runs);
}

class SharedRun implements Run {
  readonly #runs: readonly Run[];
  readonly #controller = new AbortController();

  constructor(runs: readonly Run[]) {
    this.#runs = runs;
    for (const run of runs) run.abortAlso(this.#controller);
  }

  get ledger(): Run["ledger"] {
    return this.#runs[0]!.ledger;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  throwIfAborted(): void {
    this.signal.throwIfAborted();
  }

  abortAlso(shared: AbortController): void {
    const { signal } = this;
    if (signal.aborted) shared.abort(signal.reason);
    else signal.addEventListener("abort", () => shared.abort(signal.reason), { once: true });
  }

  async confirm(): Promise<void> {
    for (const run of this.#runs) await run.confirm();
  }

  async uncounted<T>(wait: Promise<T>): Promise<T> {
    await Promise.all(this.#runs.map((run) => run.uncounted(wait)));
    return wait;
  }
}

/** `Promise.withResolvers`, which Node 20 does not have. */
function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
