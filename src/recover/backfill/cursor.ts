import type { Verbs } from "../../ledger/verbs.ts";

/**
 * Where a backfill stands. Stripe lists the newest first, so a walk goes back in time, and what it has passed is known
 * to be complete only when it has come to its beginning. So two things are kept: up to where everything is there, and
 * how far an unfinished walk has come down. All times are Stripe's, in seconds.
 */
export interface Position {
  /** Nothing is missing up to here; undefined before the first walk has ended. */
  readonly upTo?: number | undefined;
  readonly walk?: Walk | undefined;
}

export interface Walk {
  readonly from: number;
  readonly to: number;
  /** The oldest event whose page is recorded. */
  readonly after?: string | undefined;
}

/** The row of one backfill. Each move says from where, so that of two who walk at once one stops. */
export class Cursor {
  /** The database's time when it was read, in seconds. */
  now = 0;
  /** When the first event of this source was recorded, where no backfill has been here before. */
  began: number | undefined;
  position: Position = {};
  readonly #verbs: Verbs;
  readonly #name: string;
  readonly #lane: string;
  #text: string | null = null;

  constructor(verbs: Verbs, name: string, lane: string) {
    this.#verbs = verbs;
    this.#name = name;
    this.#lane = lane;
  }

  async read(): Promise<void> {
    const { value, now, began } = await this.#verbs.call<{
      value: string | null;
      now: number;
      began: number | null;
    }>("cursor_read", [this.#name, this.#lane]);
    this.now = Math.floor(now);
    this.began = began === null ? undefined : Math.floor(began);
    this.#text = value;
    this.position = value === null ? {} : (JSON.parse(value) as Position);
  }

  /** False where somebody else has moved it since. */
  async move(to: Position): Promise<boolean> {
    const text = JSON.stringify(to);
    // A move to where it stands proves nothing, and is not needed.
    if (text === this.#text) return true;
    if (!(await this.#verbs.call<boolean>("cursor_move", [this.#name, this.#text, text]))) return false;
    this.#text = text;
    this.position = to;
    return true;
  }
}
