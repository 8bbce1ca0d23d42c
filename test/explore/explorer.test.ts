import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../ledger/support.ts";
import { describeWith } from "../support/postgres.ts";
import { type Deviations, explore, Explorer, seeded } from "./explore.ts";
import { LiveDatabase } from "./live.ts";
import { claimThenSend } from "./naive/claim-then-send.ts";
import { insertAndCatch } from "./naive/insert-and-catch.ts";
import { takeoverByAge } from "./naive/takeover-by-age.ts";
import { naively } from "./naive/way.ts";
import type { Played } from "./played.ts";
import { printFailure } from "./print.ts";
import { Unreachable } from "./route.ts";
import type { Row } from "./rows.ts";
import type { Workload } from "./scene.ts";
import { appSchema } from "./schema.ts";
import { shrink } from "./shrink.ts";
import { workloads } from "./workloads/index.ts";

/** How likely a deviation is at each point: about one in a schedule, some, many. */
const chances = [0.04, 0.08, 0.15];

describeWith("newest", "the explorer itself", (database) => {
  let live: LiveDatabase | undefined;
  beforeAll(async () => {
    const url = urlOf(database);
    if (url !== undefined) live = await LiveDatabase.open(url, appSchema);
  });
  afterAll(() => live?.close());

  /** Those that hold, and some that do not: then the verdicts have something to differ by. */
  const compared: readonly Workload[] = [
    ...workloads,
    naively(insertAndCatch) as Workload,
    naively(takeoverByAge) as Workload,
    naively(claimThenSend) as Workload,
  ];

  const named = compared.map((workload) => [workload.name, workload] as const);
  it.each(named)("remembers what the database would answer for real: %s", async (_, workload) => {
    const remembered = await sample(workload, { remember: true, numbers: numbersTo(40) });
    // The last ones: by then most states on their way are known from others that count as the same.
    const numbers = numbersTo(40).slice(-10);
    const real = await sample(workload, { remember: false, numbers });
    expect(numbers.map((number) => real.get(number))).toEqual(
      numbers.map((number) => remembered.get(number)),
    );
  });

  interface Sample {
    readonly remember: boolean;
    readonly numbers: readonly number[];
  }

  /** Schedules with some deviations each, at random but the same in every run, by their numbers. */
  async function sample(workload: Workload, { remember, numbers }: Sample): Promise<Map<number, string>> {
    const texts = new Map<number, string>();
    const explorer = await Explorer.open(workload, live!, { remember });
    try {
      for (const number of numbers) {
        const random = seeded(number * 7_919);
        const chance = chances[number % chances.length]!;
        random();
        const played = await explorer.playBy((options) =>
          random() < chance ? Math.floor(random() * options.length) : 0,
        );
        texts.set(number, textOf(played));
      }
    } finally {
      explorer.close();
    }
    return texts;
  }

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

  it("takes what cannot be repeated for a fault of the code, unless the database was asked again", async () => {
    for (const remember of [true, false]) {
      const explorer = await Explorer.open(workloads[0]!, live!, { remember });
      try {
        await explorer.play([]);
        const error = await explorer.play([[0, 1_000]]).catch((failed: unknown) => failed);
        expect(String(error)).toContain("Point 1 has no option 1000: the schedule cannot be repeated.");
        expect(error instanceof Unreachable).toBe(!remember);
      } finally {
        explorer.close();
      }
    }
  });

  it("plays at most as many schedules as it is told", async () => {
    const report = await explore(workloads[0]!, { live: live!, budget: 100 });
    expect(report.schedules).toBe(100);
    expect(report.levels.map(({ played }) => played).reduce((sum, played) => sum + played)).toBe(100);
    expect(report.levels.slice(0, 2).every(({ known, played }) => known === played)).toBe(true);
  });
});

function numbersTo(last: number): number[] {
  return Array.from({ length: last }, (_, i) => i + 1);
}

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
