import type { Config } from "../config.ts";
import { OncewardError } from "../errors.ts";
import type { Log } from "./log.ts";

/** At night in Europe and America, and not on the hour, when everybody else's schedules run. */
const pruneCron = "17 3 * * *";

/** Stripe's own tries come within minutes at first: what they miss is here soon, and the list is asked seldom. */
const backfillCron = "*/5 * * * *";

/** What `serve` does by itself, once across all processes, where the configuration asks for it. */
export function scheduleUpkeep(config: Config, log?: Pick<Log, "say">): void {
  const { once, retention } = config;
  if (retention) {
    once.schedule("onceward-prune", { cron: retention.cron ?? pruneCron }, ({ signal }) =>
      once.recovery.prune({ retention, signal }),
    );
  }
  scheduleBackfill(config, log);
}

/** Where there is an API key: fetches what never arrived. */
function scheduleBackfill({ once, backfill }: Config, log?: Pick<Log, "say">): void {
  const { source = "stripe", apiKey = process.env["STRIPE_API_KEY"], cron, accounts } = backfill || {};
  if (backfill === false || !apiKey || !once.sources.has(source)) return;
  const apiBase = process.env["STRIPE_API_BASE"];
  const fetchMissing = async (account: string | undefined, signal: AbortSignal): Promise<string> => {
    try {
      const { sentence, missing } = await once.recovery.backfill({
        source,
        apiKey,
        apiBase,
        account,
        signal,
      });
      log?.say(`backfill: ${sentence}`, { source, account, missing });
      return sentence;
    } catch (error) {
      // The next tick goes on from where this one stood.
      if (!(error instanceof OncewardError) || error.code !== "sender_unavailable") throw error;
      log?.say(`backfill: ${error.message}`, { source, account });
      return error.message;
    }
  };
  const own: readonly (string | undefined)[] = [undefined];
  once.schedule(
    `onceward-backfill-${source}`,
    { cron: cron ?? backfillCron, maxAttempts: 1 },
    async ({ signal }) => {
      const said: string[] = [];
      for (const account of [...own, ...(accounts ?? [])]) said.push(await fetchMissing(account, signal));
      return said;
    },
  );
}
