import { Cron } from "croner";
import { messageOf, OncewardError } from "../errors.ts";

/** When a schedule ticks: a cron expression, of five fields or of six with seconds first, in a time zone. */
export interface Timetable {
  readonly cron: string;
  readonly timezone: string;
}

/** The ticks of a timetable, by the clocks of its time zone: also over the days on which they are set. */
export class Ticks {
  readonly #cron: Cron;

  constructor({ cron, timezone }: Timetable) {
    try {
      // Without a function it only reckons, and starts no timer.
      this.#cron = new Cron(cron, { timezone, mode: "5-or-6-parts" });
      if (!this.#cron.nextRun()) throw new Error("It never ticks.");
    } catch (error) {
      throw new OncewardError(
        "config_invalid",
        `This is no schedule: ${messageOf(error)} A schedule has a cron expression such as "0 3 * * *" and a time zone ` +
          'such as "Europe/Berlin".',
        { cause: error },
      );
    }
  }

  /** The first tick after this time. */
  next(after: Date): Date {
    return this.#cron.nextRun(after) as Date;
  }

  /** The last tick at this time or before it. */
  latest(until: Date): Date {
    // It looks at whole seconds, and before the one it is given.
    return this.#cron.previousRuns(1, new Date(until.getTime() + 1_000))[0] as Date;
  }

  has(time: Date): boolean {
    return this.next(new Date(time.getTime() - 1_000)).getTime() === time.getTime();
  }
}
