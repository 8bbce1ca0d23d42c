/** Makes a failing schedule as small as it gets: without each deviation that it does not need to fail. */
import type { Explorer, Failure } from "./explore.ts";
import type { Choose, Option } from "./option.ts";
import type { Played } from "./played.ts";

/** A deviation in words that hold when others are left out, which moves the points of those after it. */
interface Wish {
  /** What would have happened by default, and the how-manieth time it would. */
  readonly instead: string;
  readonly time: number;
  readonly choice: string;
}

export async function shrink<App>(explorer: Explorer<App>, failure: Failure): Promise<Failure> {
  const wanted = failure.violations[0]?.invariant;
  const wishes: Wish[] = [];
  await explorer.playBy(noting(new Map(failure.deviations), wishes));
  let best = await granted(explorer, wishes);
  // Where it cannot be said in words, it is small enough as it is.
  if (!fails(best.played, wanted)) return failure;
  for (let i = 0; i < wishes.length;) {
    const fewer = wishes.toSpliced(i, 1);
    const tried = await granted(explorer, fewer);
    if (fails(tried.played, wanted)) {
      wishes.splice(i, 1);
      best = tried;
    } else i++;
  }
  return { ...best, violations: best.played.violations };
}

function fails({ violations }: Played, wanted: string | undefined): boolean {
  return violations.some(({ invariant }) => invariant === wanted);
}

/** Takes the given options, and notes in words which they were. */
function noting(options: ReadonlyMap<number, number>, wishes: Wish[]): Choose {
  const times = new Map<string, number>();
  return (all, point) => {
    const instead = nameOf(all[0]!);
    const time = count(times, instead);
    const option = options.get(point) ?? 0;
    if (option > 0) wishes.push({ instead, time, choice: nameOf(all[option]!) });
    return option;
  };
}

async function granted<App>(
  explorer: Explorer<App>,
  wishes: readonly Wish[],
): Promise<Pick<Failure, "deviations" | "played">> {
  const times = new Map<string, number>();
  const deviations: [number, number][] = [];
  const played = await explorer.playBy((all, point) => {
    const instead = nameOf(all[0]!);
    const time = count(times, instead);
    const wish = wishes.find((one) => one.instead === instead && one.time === time);
    const option = wish ? all.findIndex((one) => nameOf(one) === wish.choice) : 0;
    if (option > 0) deviations.push([point, option]);
    return Math.max(option, 0);
  });
  return { deviations, played };
}

function count(times: Map<string, number>, name: string): number {
  const time = (times.get(name) ?? 0) + 1;
  times.set(name, time);
  return time;
}

function nameOf({ op, fault, resume }: Option): string {
  const what = typeof op?.what === "string" ? op.what : op?.what.text;
  return [op?.who ?? resume?.name, what ?? "goes on", fault ?? ""].join(" | ");
}
