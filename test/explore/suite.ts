/** Explores workloads as tests: a schedule that breaks an invariant is printed, as small as it gets. */
import { afterAll, beforeAll, it } from "vitest";
import { describeWith } from "../support/postgres.ts";
import { urlOf } from "../ledger/support.ts";
import { Explorer, explore, type Failure, type Report } from "./explore.ts";
import { LiveDatabase } from "./live.ts";
import { printFailure } from "./print.ts";
import type { Workload } from "./scene.ts";
import { appSchema } from "./schema.ts";
import { shrink } from "./shrink.ts";
import { workloads } from "./workloads/index.ts";

/** Schedules of all workloads together that `npm test` plays: under two minutes on two cores. `npm run explore` plays more. */
const schedulesInTests = 50_000;

const { ONCEWARD_SCHEDULES, ONCEWARD_SEED, ONCEWARD_PROGRESS } = process.env;

/** The schedules of one workload. */
function budgetOf({ share = 1 }: Workload): number {
  const shares = workloads.reduce((sum, one) => sum + (one.share ?? 1), 0);
  return Math.ceil((Number(ONCEWARD_SCHEDULES ?? schedulesInTests) * share) / shares);
}

const seed = Number(ONCEWARD_SEED ?? 1);

/** For hangs, not for speed: some ms a schedule are usual. */
const longestMs = (budget: number): number => Math.max(20 * 60_000, budget * 200);

/** How often a line says how far it is, in ms. */
const progressMs = 2_000;

export function exploring(name: string, some: readonly Workload[]): void {
  describeWith("newest", name, (database) => {
    let live: LiveDatabase | undefined;
    beforeAll(async () => {
      const url = urlOf(database);
      if (url !== undefined) live = await LiveDatabase.open(url, appSchema);
    });
    afterAll(() => live?.close());

    for (const workload of some) {
      const budget = budgetOf(workload);
      it(
        workload.name,
        async () => {
          const onPlayed = progress(workload, budget);
          const report = await explore(workload, {
            live: live!,
            budget,
            seed,
            ...(onPlayed && { onPlayed }),
          });
          if (onPlayed) console.log(summary(workload, report));
          if (report.failure) throw new Error(await explain(workload, live!, report.failure));
        },
        longestMs(budget),
      );
    }
  });
}

/** The failing schedule in words, with as few deviations as it takes. */
export async function explain(workload: Workload, live: LiveDatabase, failure: Failure): Promise<string> {
  const explorer = await Explorer.open(workload, live);
  try {
    return `${workload.name}\n${printFailure(await shrink(explorer, failure))}`;
  } finally {
    explorer.close();
  }
}

function progress({ name }: Workload, budget: number): ((schedules: number) => void) | undefined {
  if (!ONCEWARD_PROGRESS) return undefined;
  let nextAt = performance.now() + progressMs;
  return (schedules) => {
    if (performance.now() < nextAt) return;
    nextAt = performance.now() + progressMs;
    process.stderr.write(`${name}: ${schedules} of ${budget} schedules\n`);
  };
}

function summary({ name }: Workload, { schedules, levels, steps, statements, states }: Report): string {
  const played = levels.map(({ known, played: some }) =>
    some === known ? `${known}` : `${some} of ${known}`,
  );
  return `${name}: ${schedules} schedules (${played.join(" + ")}), ${steps} steps, ${states} states, ${statements} statements run`;
}
