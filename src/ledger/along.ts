/** Calls of two kinds that come at the same time share one statement and one commit. */
import { OncewardError } from "../errors.ts";
import type { Coalesced } from "./coalesce.ts";

/** A flush that takes along who waits for another one. Where that fails, nobody knows whose fault it was: each for itself. */
export function takingAlong<Item, Answer, Other, OtherAnswer>(
  flush: (items: readonly Item[]) => Promise<readonly Answer[]>,
  { others, mayGoAlong, together }: Along<Item, Answer, Other, OtherAnswer>,
): (items: readonly Item[]) => Promise<readonly Answer[]> {
  return async (items) => {
    const along = others.take(mayGoAlong);
    if (along.length === 0) return flush(items);
    try {
      const answers = await together(
        along.map((call) => call.item),
        items,
      );
      along.forEach((call, i) => call.resolve(answers.others[i] as OtherAnswer));
      return answers.own;
    } catch (error) {
      others.giveBack(along);
      if (error instanceof OncewardError) throw error;
      return flush(items);
    }
  };
}

interface Along<Item, Answer, Other, OtherAnswer> {
  readonly others: Coalesced<Other, OtherAnswer>;
  readonly mayGoAlong: (other: Other) => boolean;
  together(
    others: readonly Other[],
    items: readonly Item[],
  ): Promise<{ readonly others: readonly OtherAnswer[]; readonly own: readonly Answer[] }>;
}
