import { milliseconds } from "../duration.ts";
import { OncewardError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import { runSteps } from "../step/run.ts";
import type { Engine } from "../worker/engine.ts";
import type { Finish, Lane, Run } from "../worker/lane.ts";
import { checkOptions } from "./check.ts";
import { Ticks } from "./cron.ts";
import { jobScope } from "./define.ts";
import { enqueuer } from "./enqueue.ts";
import type { JobOptions, JobTools } from "./job.ts";
import { current, putInForce } from "./timetable.ts";

/** A tick that nobody started for so long was missed, where missed ones are skipped. A restart is shorter. */
const missedAfterMs = 60_000;

export interface ScheduleOptions extends Pick<JobOptions<never>, "maxAttempts" | "backoff" | "deadline"> {
  /** Five fields (minute, hour, day, month, weekday), or six with seconds first: "0 3 * * *" is three at night. */
  readonly cron: string;
  /** A name such as "Europe/Berlin". Default "UTC". */
  readonly timezone?: string | undefined;
  /**
   * What becomes of ticks while no process runs. `latest` (default): the last of them is made up. `all`: each of
   * them. `skip`: none; a tick that starts more than a minute late is left out.
   */
  readonly missed?: "latest" | "all" | "skip" | undefined;
}

/** What a schedule's function is given. */
export interface TickTools<Tx = unknown> extends Omit<JobTools<never, Tx>, "input"> {
  /** The time it is for; it may run later. */
  readonly tick: Date;
}

/**
 * Runs a function at the times of a cron expression, each time once across all processes. A tick is a task
 * whose key is its time, recorded one ahead: whoever comes first records it, whoever has room runs it.
 */
export function schedule<Tx>(
  engine: Engine<Tx>,
  name: string,
  options: ScheduleOptions,
  fn: (tools: TickTools<Tx>) => unknown,
): void {
  const { cron, timezone = "UTC", missed = "latest", maxAttempts, backoff, deadline } = options;
  checkOptions(name, { maxAttempts, deadline });
  if (!["latest", "all", "skip"].includes(missed)) {
    throw new OncewardError("config_invalid", `${name}: missed is "latest", "all" or "skip".`);
  }
  void new Ticks({ cron, timezone });
  const scope = jobScope(name);
  let defined = false;

  const record = async (ledger: Ledger, tick: Date): Promise<void> => {
    const recorded = await ledger.record({
      scope,
      key: tick.toISOString(),
      dueAt: tick,
      maxTries: maxAttempts,
    });
    // The loop learns when to look next.
    if (recorded.outcome === "recorded") engine.worker.announce(scope);
  };

  const lane: Lane = {
    name: scope,
    backoff,
    deadlineMs: deadline === undefined ? undefined : milliseconds(deadline),
    async tend(ledger) {
      if (!defined) await putInForce(ledger, name, { cron, timezone });
      defined = true;
      // By the timetable in force, which a newer process may have changed.
      const { ticks, now } = await current(ledger, name);
      if (ticks) await record(ledger, ticks.next(now));
    },
    async run(task, run) {
      const { ticks, now } = await current(run.ledger, name);
      const tick = new Date(task.key);
      if (!ticks?.has(tick)) return skipped("the schedule has changed");
      const isFirst = task.attempt === 1;
      const next = ticks.next(missed === "all" || now < tick ? tick : now);
      await record(run.ledger, next);
      const latest = ticks.latest(now);
      if (isFirst && missed === "latest" && latest > tick) {
        await record(run.ledger, latest);
        return skipped("missed; a later tick is made up");
      }
      if (isFirst && missed === "skip" && now.getTime() - tick.getTime() > missedAfterMs)
        return skipped("missed");
      return runTick(task, run, tick);
    },
  };

  const runTick = (task: ClaimedTask, run: Run, tick: Date): Promise<Finish> =>
    runSteps(engine, task, run, (tools) => {
      const { key, attempt } = task;
      return fn(tools({ tick, key, attempt, enqueue: enqueuer(engine, task) }));
    });

  engine.addLane(lane);
}

function skipped(why: string): Finish {
  return { finish: "complete", result: JSON.stringify({ skipped: why }) };
}
