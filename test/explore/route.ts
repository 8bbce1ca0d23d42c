/**
 * Brings the real database to a place where transactions are open: to the last one without any, and from there
 * through all that was done since.
 */
import { isDeepStrictEqual } from "node:util";
import type { LiveDatabase, Statement } from "./live.ts";
import { isEnding } from "./params.ts";
import type { Action, Followed, Outcome, Place } from "./place.ts";
import { difference, type State } from "./state.ts";

/** For races between two; each way is taken now and then. */
const mostTries = 30;

/** The database does not answer as it did: two sessions raced, and the one won that hardly ever does. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

interface Taken {
  readonly outcome: Outcome;
  /** Nobody else can see that it was done. */
  readonly changesNothing: boolean;
}

export class Route {
  readonly #live: LiveDatabase;
  readonly #forget: (place: Place, action: Action) => void;
  /** Where the real database stands, with transactions open. */
  #at: Place | undefined;

  /** `forget` drops what is known to follow from an action. */
  constructor(live: LiveDatabase, forget: (place: Place, action: Action) => void) {
    this.#live = live;
    this.#forget = forget;
  }

  stand(place: Place): void {
    this.#at = place;
  }

  leave(): void {
    this.#at = undefined;
  }

  /** Takes a step from a place. `rows` are those that the database has now, where no transaction is open. */
  async take(from: Place, action: Action, rows: State | undefined): Promise<Taken> {
    await this.#bring(from, rows);
    this.leave();
    const taken = await this.#perform(action);
    if (taken.changesNothing && !from.state) this.stand(from);
    return taken;
  }

  async #bring(place: Place, rows: State | undefined): Promise<void> {
    if (!place.state && this.#at === place) return;
    if (this.#near(place)) {
      await this.#live.setClock(place.clockMs);
      return;
    }
    const path: Followed[] = [];
    let base = place;
    for (; base.before; base = base.before.place) path.unshift(base.before);
    for (let tries = 1; ; tries++) {
      this.leave();
      await this.#live.restore(difference(tries === 1 ? rows : undefined, base.state!), base.clockMs);
      if (await this.#follow(path)) return;
      if (tries < mostTries) continue;
      // Whoever goes this way again finds out anew what it leads to.
      for (const { place: left, action } of path) if (action.do !== "clock") this.#forget(left, action);
      throw new Unreachable();
    }
  }

  /** It stands there already, but for the time. */
  #near(place: Place): boolean {
    const { before } = place;
    if (!before || !this.#at) return false;
    return before.action.do === "clock" && (before.place === this.#at || this.#near(before.place));
  }

  /** False where it went another way: two sessions that wait for the same transaction wake together, and race. */
  async #follow(path: readonly Followed[]): Promise<boolean> {
    for (let i = 0; i < path.length;) {
      const { place, action, outcome } = path[i]!;
      if (place.state && action.do === "run" && action.begin) {
        const together = firstSteps(path, i, action.session);
        const replies = await this.#live.runTogether(
          action.session,
          together.map((step) => step.statement),
          action.begin,
        );
        const known = together.map((step) => step.reply);
        if (!isDeepStrictEqual(replies, known)) return false;
        i += together.length;
        continue;
      }
      const { reply, woken } = (await this.#perform(action)).outcome;
      if (!isDeepStrictEqual([reply, woken], [outcome.reply, outcome.woken])) return false;
      i++;
    }
    return true;
  }

  async #perform(action: Action): Promise<Taken> {
    if (action.do === "clock") {
      await this.#live.setClock(action.ms);
      return { outcome: { reply: undefined, woken: [] }, changesNothing: false };
    }
    const statement = action.do === "run" ? action.statement : { text: "rollback", values: [] };
    if (isEnding(statement)) await this.#live.holdBack(action.session);
    const { reply, wrote } = await this.#live.run(
      action.session,
      statement,
      action.do === "run" ? action.begin : undefined,
    );
    // Locks are let go by whatever ends a transaction, and by what makes one fail.
    const letsGo = reply !== "blocked" && ("error" in reply || isEnding(statement));
    const woken = letsGo ? await this.#live.woken() : [];
    return { outcome: { reply: action.do === "run" ? reply : undefined, woken }, changesNothing: !wrote };
  }
}

/** The steps with which a transaction begins, before anybody else does anything and before it ends. */
function firstSteps(
  path: readonly Followed[],
  from: number,
  session: string,
): { statement: Statement; reply: Outcome["reply"] }[] {
  const steps: { statement: Statement; reply: Outcome["reply"] }[] = [];
  for (const { action, outcome } of path.slice(from)) {
    if (action.do !== "run" || action.session !== session || isEnding(action.statement)) break;
    const failed = outcome.reply && outcome.reply !== "blocked" && "error" in outcome.reply;
    // Of several in one message, only the error would be told.
    if (failed && steps.length > 0) break;
    steps.push({ statement: action.statement, reply: outcome.reply });
    if (failed) break;
  }
  return steps;
}
