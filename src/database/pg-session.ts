/** One connection of a `pg` pool while we hold it. */
import { OncewardError } from "../errors.ts";

/** What we need of a pooled client to give it back, or up. */
interface Releasable {
  release(destroy?: boolean): void;
}

/**
 * Which connections may be dead without anybody having been told: a machine on the way forgets them all at once.
 * So when one does not answer, those that have not answered since are not trusted either.
 */
export class Suspicion {
  readonly #answeredAt = new WeakMap<object, number>();
  #unansweredSince = -Infinity;

  answered(client: object): void {
    this.#answeredAt.set(client, performance.now());
  }

  /** A statement that was sent at this moment has had no answer. */
  unanswered(since: number): void {
    this.#unansweredSince = Math.max(this.#unansweredSince, since);
  }

  /** It has answered us within so many ms. */
  isFresh(client: object, ms: number): boolean {
    return performance.now() - (this.#answeredAt.get(client) ?? -Infinity) < ms;
  }

  /** New connections have answered just now, to the one who made them. */
  isSuspect(client: object): boolean {
    return (this.#answeredAt.get(client) ?? Infinity) < this.#unansweredSince;
  }
}

export class PgSession<Client extends Releasable> {
  readonly client: Client;
  readonly #suspicion: Suspicion;
  readonly #timeoutMs: number;
  #released = false;
  #reason: { readonly error: unknown } | undefined;

  /** `timeoutMs`: how long a statement of ours may take; 0 means however long it takes. */
  constructor(client: Client, suspicion: Suspicion, timeoutMs: number) {
    this.client = client;
    this.#suspicion = suspicion;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The answer to a statement. Where none comes in time the connection is given up and this rejects with
   * `database_unavailable`: whether the statement has taken effect is then not known.
   */
  async answer<T>(statement: () => Promise<T>): Promise<T> {
    const sentAt = performance.now();
    const timer =
      this.#timeoutMs > 0
        ? setTimeout(() => {
            this.#suspicion.unanswered(sentAt);
            this.giveUp(unanswered(this.#timeoutMs));
          }, this.#timeoutMs)
        : undefined;
    try {
      return await statement();
    } catch (error) {
      throw this.#reason ? this.#reason.error : error;
    } finally {
      clearTimeout(timer);
      if (!this.#reason) this.#suspicion.answered(this.client);
    }
  }

  /** Whether it has answered us within so many ms. */
  isFresh(ms: number): boolean {
    return this.#suspicion.isFresh(this.client, ms);
  }

  /** Destroys the connection. What waits for an answer on it rejects, and Postgres rolls back what was open. */
  giveUp(error: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.#reason = { error };
    this.client.release(true);
  }

  /** Back into the pool, or destroyed where it is broken. */
  release(broken: boolean): void {
    if (this.#released) return;
    this.#released = true;
    this.client.release(broken);
  }
}

function unanswered(ms: number): OncewardError {
  return new OncewardError(
    "database_unavailable",
    `The database did not answer a statement within ${ms} ms, so its connection was given up. It may have taken ` +
      "effect. Look for locks that are held for long, or for something on the way that drops connections.",
  );
}
