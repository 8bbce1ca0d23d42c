import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../ledger/support.ts";
import { describeWith } from "../support/postgres.ts";
import { type Deviations, explore, Explorer, seeded } from "./explore.ts";
import { LiveDatabase } from "./live.ts";
import { insertAndCatch } from "./naive/insert-and-catch.ts";
import { naively } from "./naive/way.ts";
import type { Played } from "./played.ts";
import { printFailure } from "./print.ts";
import type { Row } from "./rows.ts";
import { appSchema } from "./schema.ts";
import { shrink } from "./shrink.ts";
import { workloads } from "./workloads/index.ts";

describeWith("newest", "the explorer itself", (database) => {
  let live: LiveDatabase | undefined;
  beforeAll(async () => {
    const url = urlOf(database);
    if (url !== undefined) live = await LiveDatabase.open(url, appSchema);
  });
  afterAll(() => live?.close());

  /** Schedules with some deviations each, at random but the same in every run. */
  async function sample(remember: boolean, schedules: number): Promise<string[]> {
    const random = seeded(7);
    const texts: string[] = [];
    for (const workload of workloads) {
      const explorer = await Explorer.open(workload, live!, { remember });
      try {
        for (let i = 0; i < schedules; i++) {
          const played = await explorer.playBy((options) =>
            random() < 0.15 ? Math.floor(random() * options.length) : 0,
          );
          texts.push(textOf(played));
        }
      } finally {
        explorer.close();
      }
    }
    return texts;
  }

  it("remembers what the database answers: running every statement for real gives the same schedules", async () => {
    const remembered = await sample(true, 4);
    expect(await sample(false, 4)).toEqual(remembered);
  }, 300_000);

  it("plays each schedule once, and every one with a deviation more after the one it follows from", async () => {
    const workload = naively({ ...insertAndCatch, faults: ["crash before", "crash after"] });
    const seen = new Set<string>();
    const explorer = await Explorer.open(workload, live!);
    const playAll = async (deviations: Deviations, depth: number): Promise<void> => {
      const { points, steps } = await explorer.play(deviations);
      seen.add(printFailure({ deviations, violations: [], played: { steps } as Played }));
      for (const [point, costs] of points.entries()) {
        if (point <= (deviations.at(-1)?.[0] ?? -1)) continue;
        for (const [option, cost] of costs.entries()) {
          if (option > 0 && cost <= depth) await playAll([...deviations, [point, option]], depth - cost);
        }
      }
    };
    await playAll([], 2);
    explorer.close();
    const holeless = { ...workload, check: () => [] };
    const report = await explore(holeless, { live: live!, depth: 2 });
    expect(report.failure).toBeUndefined();
    expect(report.schedules).toBe(seen.size);
  });

  it("leaves out of a failing schedule what it does not need to fail", async () => {
    const workload = naively({ ...insertAndCatch, faults: ["crash before", "crash after", "pause after"] });
    const explorer = await Explorer.open(workload, live!);
    try {
      // A crash that loses the event, and then, later, whatever else can go wrong.
      const first = (await explore(workload, { live: live!, depth: 1 })).failure!;
      const more = first.played.points.flatMap((costs, point): [number, number][] =>
        point > first.deviations[0]![0] ? [[point, costs.length - 1]] : [],
      );
      const deviations = [...first.deviations, ...more.slice(-1)];
      const played = await explorer.play(deviations);
      const small = await shrink(explorer, { deviations, violations: played.violations, played });
      expect(deviations).toHaveLength(2);
      expect(small.deviations).toEqual(first.deviations);
      expect(small.violations[0]?.invariant).toBe("I1");
    } finally {
      explorer.close();
    }
  });

  it("plays at most as many schedules as it is told", async () => {
    const report = await explore(workloads[0]!, { live: live!, budget: 100 });
    expect(report.schedules).toBe(100);
    expect(report.levels.map(({ played }) => played).reduce((sum, played) => sum + played)).toBe(100);
    expect(report.levels.slice(0, 2).every(({ known, played }) => known === played)).toBe(true);
  });
});

/** Everything that a schedule did, in the end and on the way; without times, by which states that count as one differ. */
function textOf(played: Played): string {
  const rows = ["onceward.task", "onceward.step", "onceward.machine", "onceward.move", "app.effect"].flatMap(
    (table) =>
      played.end.rows
        .of(table)
        .map((row) => `${table} ${JSON.stringify(timeless(row))}`)
        .toSorted(),
  );
  return [printFailure({ deviations: [], violations: played.violations, played }), ...rows].join("\n");
}

function timeless(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).filter(([column]) => !column.endsWith("_at") && column !== "since"),
  );
}
