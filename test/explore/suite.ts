/** Explores workloads as tests: a schedule that breaks an invariant is printed, as small as it gets. */
import { afterAll, beforeAll, it } from "vitest";
import { describeWith } from "../support/postgres.ts";
import { urlOf } from "../ledger/support.ts";
import { Explorer, type ExploreOptions, explore, type Failure, type Report } from "./explore.ts";
import { LiveDatabase } from "./live.ts";
import { printFailure } from "./print.ts";
import type { Workload } from "./scene.ts";
import { appSchema } from "./schema.ts";
import { shrink } from "./shrink.ts";
import { workloads } from "./workloads/index.ts";

/** All schedules with up to so many deviations are played by `npm test`. */
const depth = 2;

/** Schedules of all workloads together, for whoever has the time: `npm run explore` says a million. */
const wanted = Number(process.env["ONCEWARD_SCHEDULES"] ?? 0);

/** For hangs, not for speed: some ms a schedule are usual. */
const longestMs = Math.max(10 * 60_000, wanted * 20);

export function exploring(name: string, some: readonly Workload[]): void {
  describeWith("newest", name, (database) => {
    let live: LiveDatabase | undefined;
    beforeAll(async () => {
      const url = urlOf(database);
      if (url !== undefined) live = await LiveDatabase.open(url, appSchema);
    });
    afterAll(() => live?.close());

    for (const workload of some) {
      it(
        workload.name,
        async () => {
          const report = await explore(workload, { live: live!, ...extent() });
          console.log(summary(workload, report));
          if (report.failure) throw new Error(await explain(workload, live!, report.failure));
        },
        longestMs,
      );
    }
  });
}

function extent(): Pick<ExploreOptions, "depth" | "budget"> {
  return wanted > 0 ? { budget: Math.ceil(wanted / workloads.length) } : { depth };
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

function summary({ name }: Workload, { schedules, levels, steps, statements, states }: Report): string {
  const played = levels.map(({ known, played: some }) =>
    some === known ? `${known}` : `${some} of ${known}`,
  );
  return `${name}: ${schedules} schedules (${played.join(" + ")}), ${steps} steps, ${states} states, ${statements} statements run`;
}
