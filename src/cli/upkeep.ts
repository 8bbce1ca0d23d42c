import type { Config } from "../config.ts";

/** At night in Europe and America, and not on the hour, when everybody else's schedules run. */
const pruneCron = "17 3 * * *";

/** What `serve` does by itself, once across all processes, where the configuration asks for it. */
export function scheduleUpkeep({ once, retention }: Config): void {
  if (retention) {
    once.schedule("onceward-prune", { cron: retention.cron ?? pruneCron }, ({ signal }) =>
      once.recovery.prune({ retention, signal }),
    );
  }
}
