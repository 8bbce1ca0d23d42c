/**
 * Plays all schedules of a workload, nearest to the default first: the one without any deviation, all with one,
 * all with two, … A deviation is a fault, or going on with another process than the one that ran. So the first
 * schedule that fails has as few deviations as any.
 */
import { replaceGlobals } from "./globals.ts";
import { changeViolations, endViolations } from "./invariants.ts";
import type { LiveDatabase } from "./live.ts";
import type { Choose } from "./option.ts";
import type { Played } from "./played.ts";
import { Replica } from "./replica.ts";
import { Unreachable } from "./route.ts";
import type { Violation, Workload } from "./scene.ts";
import { Schedule } from "./schedule.ts";
import { VirtualTime } from "./virtual-time.ts";

/** Which option is taken at which point, where it is not the first. */
export type Deviations = readonly (readonly [point: number, option: number])[];

export interface ExploreOptions {
  readonly live: LiveDatabase;
  /** All schedules with up to so many deviations. */
  readonly depth?: number;
  /** At most so many schedules; of the last level that is begun, a sample. */
  readonly budget?: number;
  /** Which sample that is. */
  readonly seed?: number;
  /** Told after every schedule how many were played. */
  readonly onPlayed?: (schedules: number) => void;
}

export interface Failure {
  readonly deviations: Deviations;
  readonly violations: readonly Violation[];
  readonly played: Played;
}

export interface Report {
  readonly schedules: number;
  /** By the number of deviations: how many schedules there are, and how many were played. */
  readonly levels: readonly Level[];
  readonly failure: Failure | undefined;
  /** Steps of all schedules, statements that were run for them, and different states of the database. */
  readonly steps: number;
  readonly statements: number;
  readonly states: number;
}

export interface Level {
  readonly known: number;
  readonly played: number;
}

/** Plays schedules of one workload, over one database. Close it: the globals that tell the time are replaced until then. */
export class Explorer<App> {
  readonly #workload: Workload<App>;
  readonly #replica: Replica;
  readonly #time = new VirtualTime();
  readonly #restoreGlobals: () => void;

  private constructor(workload: Workload<App>, live: LiveDatabase, remember: boolean) {
    this.#workload = workload;
    this.#restoreGlobals = replaceGlobals(this.#time);
    this.#replica = new Replica(live, this.#time.now, { remember, check: changeViolations });
  }

  /** `remember: false` runs every statement of every schedule for real; see Replica. */
  static async open<App>(
    workload: Workload<App>,
    live: LiveDatabase,
    { remember = true }: { remember?: boolean } = {},
  ): Promise<Explorer<App>> {
    await live.endAll();
    return new Explorer(workload, live, remember);
  }

  get states(): number {
    return this.#replica.states;
  }

  close(): void {
    this.#restoreGlobals();
  }

  play(deviations: Deviations): Promise<Played> {
    const options = new Map(deviations);
    return this.playBy((_, point) => options.get(point) ?? 0);
  }

  /** Plays one schedule, and checks what must hold after every schedule. */
  async playBy(choose: Choose): Promise<Played> {
    const played = await new Schedule(this.#workload, this.#replica, this.#time, choose).play();
    const violations = [
      ...played.violations,
      ...this.#replica.wrong,
      ...endViolations(played.end, this.#workload as Workload),
      ...(this.#workload.check?.(played.end) ?? []),
    ];
    return { ...played, violations };
  }
}

export async function explore<App>(workload: Workload<App>, options: ExploreOptions): Promise<Report> {
  const { live, depth = Infinity, budget = Infinity, seed = 1, onPlayed } = options;
  const before = live.statements;
  const explorer = await Explorer.open(workload, live);
  const frontier = new Frontier(depth, budget, seeded(seed));
  let failure: Failure | undefined;
  let steps = 0;
  let unplayed = 0;
  try {
    for (let deviations = frontier.next(); deviations; deviations = frontier.next()) {
      const played = await playable(explorer, deviations);
      if (!played) {
        unplayed++;
        continue;
      }
      const { violations } = played;
      steps += played.steps.length;
      if (violations.length > 0) {
        // Others with as few deviations may be shorter.
        frontier.stopAfterLevel();
        if (!failure || played.steps.length < failure.played.steps.length)
          failure = { deviations, violations, played };
      }
      frontier.add(deviations, played.points);
      onPlayed?.(frontier.played);
      // Nothing above need wait for the event loop, on which others wait.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    explorer.close();
  }
  const { played, levels } = frontier;
  const schedules = played - unplayed;
  if (unplayed > Math.max(5, played * mostUnplayed))
    throw new Error(
      `${unplayed} of ${played} schedules could not be played: states cannot be reached again.`,
    );
  return { schedules, levels, failure, steps, statements: live.statements - before, states: explorer.states };
}

/** The part of all schedules that may be lost to races which the explorer does not decide. */
const mostUnplayed = 0.01;

/** Plays a schedule, with fresh eyes where a state on its way cannot be reached again; undefined where that does not help. */
async function playable<App>(explorer: Explorer<App>, deviations: Deviations): Promise<Played | undefined> {
  for (let tries = 0; tries < 3; tries++) {
    try {
      return await explorer.play(deviations);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
    }
  }
  return undefined;
}

interface Waiting {
  known: number;
  played: number;
  readonly waiting: Deviations[];
}

/** The schedules that are still to be played, by the number of their deviations. */
class Frontier {
  #depth: number;
  readonly #budget: number;
  readonly #levels: Waiting[] = [{ known: 1, played: 0, waiting: [[]] }];
  readonly #random: () => number;
  #cost = 0;
  played = 0;

  constructor(depth: number, budget: number, random: () => number) {
    this.#random = random;
    this.#depth = depth;
    this.#budget = budget;
  }

  /** Those that were begun. */
  get levels(): readonly Level[] {
    return this.#levels.slice(0, this.#cost + 1).map(({ known, played }) => ({ known, played }));
  }

  next(): Deviations | undefined {
    if (this.played >= this.#budget) return undefined;
    for (; this.#cost <= this.#depth; this.#cost++) {
      const level = (this.#levels[this.#cost] ??= { known: 0, played: 0, waiting: [] });
      const next = this.#take(level.waiting);
      if (next) {
        level.played++;
        this.played++;
        return next;
      }
      if (this.#cost + 1 >= this.#levels.length || this.#cost === this.#depth) return undefined;
    }
    return undefined;
  }

  stopAfterLevel(): void {
    this.#depth = this.#cost;
  }

  #take(waiting: Deviations[]): Deviations | undefined {
    const last = waiting.pop();
    if (!last || waiting.length < this.#budget - this.played) return last;
    // Not all of them can be played: any of them.
    const place = Math.floor(this.#random() * (waiting.length + 1));
    const taken = waiting[place] ?? last;
    if (place < waiting.length) waiting[place] = last;
    return taken;
  }

  /** What follows from a schedule: one more deviation, after its last one. */
  add(deviations: Deviations, points: readonly (readonly number[])[]): void {
    // What follows from this level is played only if all of it can be.
    if (this.played + this.#levels[this.#cost]!.waiting.length >= this.#budget) return;
    const last = deviations.at(-1)?.[0] ?? -1;
    for (let point = last + 1; point < points.length; point++) {
      points[point]!.forEach((cost, option) => {
        if (option > 0 && this.#cost + cost <= this.#depth)
          this.#keep(this.#cost + cost, () => [...deviations, [point, option]]);
      });
    }
  }

  /** Where not all of a level can be played, those kept are a fair sample of it, in any order. */
  #keep(cost: number, deviations: () => Deviations): void {
    const level = (this.#levels[cost] ??= { known: 0, played: 0, waiting: [] });
    level.known++;
    if (level.waiting.length < this.#budget) {
      level.waiting.push(deviations());
      return;
    }
    const place = Math.floor(this.#random() * level.known);
    if (place < level.waiting.length) level.waiting[place] = deviations();
  }
}

/** The same numbers in every run: a linear congruential generator, which is chance enough for a sample. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
