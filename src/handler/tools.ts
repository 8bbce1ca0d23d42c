import { OncewardError } from "../errors.ts";
import { jobNamed } from "../job/define.ts";
import type { Enqueued, EnqueueOptions, Job, JobReference } from "../job/job.ts";
import type { TaskIdentity } from "../ledger/task.ts";
import type { Verbs } from "../ledger/verbs.ts";
import type { Engine } from "../worker/engine.ts";

/**
 * What a handler, or the effects of a move, enqueue and take inside their transaction. It works while they run: after
 * that its statements would end up in somebody else's transaction.
 */
export class Tools {
  /** Scopes of jobs that are due once the transaction has committed. */
  readonly due = new Set<string>();
  readonly #engine: Engine;
  readonly #verbs: Verbs;
  readonly #cause: TaskIdentity | undefined;
  readonly #underWay = new Set<Promise<unknown>>();
  #open = true;

  constructor(engine: Engine, verbs: Verbs, cause: TaskIdentity | undefined) {
    this.#engine = engine;
    this.#verbs = verbs;
    this.#cause = cause;
  }

  readonly enqueue = (
    job: Job | JobReference,
    input?: unknown,
    options?: EnqueueOptions,
  ): Promise<Enqueued> => this.#watched(this.#enqueue(job, input, options));

  readonly once = (key: string): Promise<boolean> => this.#watched(this.#once(key));

  /**
   * Waits for what was called and not awaited, then closes. It belongs to the transaction too: without this the work
   * would be done for ever, and the job never recorded. Where it fails, so does the work.
   */
  async settle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    this.close();
  }

  close(): void {
    this.#open = false;
  }

  async #enqueue(job: Job | JobReference, input?: unknown, options?: EnqueueOptions): Promise<Enqueued> {
    this.#check();
    const known = job.task ? job : jobNamed(this.#engine, job.name);
    const task = await known.task(input, { ...options, cause: this.#cause });
    this.#check();
    const { scope, key } = task;
    const [recorded] = await this.#verbs.record([task]);
    if (recorded?.outcome === "duplicate") return { outcome: "duplicate", scope, key };
    if (!task.delayMs && !task.dueAt) this.due.add(scope);
    return { outcome: "enqueued", scope, key };
  }

  async #once(key: string): Promise<boolean> {
    this.#check();
    return this.#verbs.once(key, { cause: this.#cause });
  }

  #watched<T>(call: Promise<T>): Promise<T> {
    const watched = call.finally(() => this.#underWay.delete(watched));
    this.#underWay.add(watched);
    return watched;
  }

  #check(): void {
    if (this.#open) return;
    throw new OncewardError(
      "config_invalid",
      "enqueue or once was called after the handler or move had ended, so it is not part of its transaction: await it.",
    );
  }
}
