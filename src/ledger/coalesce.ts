import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";

export interface CoalesceOptions {
  /** The most items of one flush; it bounds the time one statement takes. */
  readonly max?: number | undefined;
  /** At most so many flushes at once; one where a single session serves everybody. */
  readonly flushes?: number | undefined;
  /** Somebody goes on as soon as a call is answered; left out where answers only end what is done. */
  readonly awaited?: boolean | undefined;
  /** Flushes of another kind go first, which may take these along. */
  readonly yields?: boolean | undefined;
}

/** Calls that share flushes. */
export interface Coalesced<Item, Answer> {
  (item: Item): Promise<Answer>;
  /** Takes out those who wait and may go along with the flush of another kind, which then answers them. */
  take(mayGoAlong: (item: Item) => boolean): Call<Item, Answer>[];
  /** That flush failed: they go out by themselves, and along with nobody any more. */
  giveBack(calls: readonly Call<Item, Answer>[]): void;
}

/** How calls that say the same share one item of a batch. */
export interface Joining<Item, Answer> {
  /** Equal for what is equal, and quick to say. */
  nameOf(item: Item): string;
  isEqual(a: Item, b: Item): boolean;
  /** The answer of those who joined, from that of the first. */
  asJoined(answer: Answer): Answer;
}

/**
 * While a flush is under way, another one is worth its statement and its commit when so many wait. With one flush
 * at a time this process and the database take turns; with one for each call nothing is shared. Measured with 64
 * callers: 10 to 20 % more a second than one at a time.
 */
const worthAnother = 16;

/**
 * More than this are sent in halves: while the database works on one, this process runs what came of the other.
 * All at once, each waits for the other. A statement costs the database as much as about ten of its items, so halves
 * of less are no gain. Measured with 64 callers who enqueue and run empty jobs: 20 % more a second.
 */
const worthHalving = 32;

/**
 * So many of those who joined another are answered at once. Who answers a thousand duplicates in one turn reads nothing
 * meanwhile: unrelated events in a storm waited 259 ms (p99), and now 151 (bench/, medians of six in turns).
 */
const joinedPerTurn = 32;

export interface Call<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  /** Those who said the same after it. */
  joined?: Call<Item, Answer>[];
  goesAlone?: boolean;
}

/**
 * Concurrent calls share a statement and a commit: what arrives while a flush is under way goes
 * out together with the next one. Alone, a call waits for nobody. Each caller gets its own answer.
 *
 * Measured on Postgres with 64 callers: about 12,000 events a second over one connection, against
 * 2,300 one by one.
 */
export function coalesce<Item, Answer>(
  flush: (items: readonly Item[]) => Promise<readonly Answer[]>,
  options: CoalesceOptions & { readonly joining?: Joining<Item, Answer> | undefined } = {},
): Coalesced<Item, Answer> {
  const { max = 100, flushes = 1, awaited = false, yields = false, joining } = options;
  const waiting: Call<Item, Answer>[] = [];
  /** A flush is everybody's: it must not carry along the async context of whoever came first. */
  const outside = AsyncLocalStorage.snapshot();
  let underWay = 0;
  let planned = false;

  const isTime = (): boolean =>
    waiting.length > 0 && (underWay === 0 || (underWay < flushes && waiting.length >= worthAnother));

  function send(): void {
    while (isTime()) {
      const half = awaited && flushes > 1 ? Math.max(worthHalving, Math.ceil(waiting.length / 2)) : max;
      const size = Math.min(half, max);
      const batch = joining ? takeJoined(waiting, size, joining) : waiting.splice(0, size);
      underWay++;
      void settle(flush, batch, joining).then(() => {
        underWay--;
        send();
      });
    }
  }

  function planSend(): void {
    if (planned || !isTime()) return;
    planned = true;
    const sendPlanned = (): void => {
      planned = false;
      outside(send);
    };
    // After the microtasks of this turn, so that callers who start together share a flush.
    setImmediate(() => {
      // Where all were taken along there is nothing to wait for: those who come next have a turn of their own.
      if (yields && waiting.length > 0) setImmediate(sendPlanned);
      else sendPlanned();
    });
  }

  const call = (item: Item): Promise<Answer> =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      planSend();
    });
  return Object.assign(call, {
    take(mayGoAlong: (item: Item) => boolean): Call<Item, Answer>[] {
      const taken: Call<Item, Answer>[] = [];
      if (waiting.length === 0) return taken;
      const left = waiting.filter((one) => {
        const goes = taken.length < max && !one.goesAlone && mayGoAlong(one.item);
        if (goes) taken.push(one);
        return !goes;
      });
      waiting.splice(0, Infinity, ...left);
      return taken;
    },
    giveBack(calls: readonly Call<Item, Answer>[]): void {
      for (const one of calls) one.goesAlone = true;
      waiting.unshift(...calls);
      planSend();
    },
  });
}

/** The first of those who wait, so many of them that differ. */
function takeJoined<Item, Answer>(
  waiting: Call<Item, Answer>[],
  size: number,
  { nameOf, isEqual }: Joining<Item, Answer>,
): Call<Item, Answer>[] {
  const batch: Call<Item, Answer>[] = [];
  const byName = new Map<string, Call<Item, Answer>>();
  let taken = 0;
  for (const call of waiting) {
    const name = nameOf(call.item);
    const other = byName.get(name);
    if (other && isEqual(other.item, call.item)) (other.joined ??= []).push(call);
    else if (batch.length === size) break;
    else {
      batch.push(call);
      if (!other) byName.set(name, call);
    }
    taken++;
  }
  waiting.splice(0, taken);
  return batch;
}

async function settle<Item, Answer>(
  flush: (items: readonly Item[]) => Promise<readonly Answer[]>,
  batch: readonly Call<Item, Answer>[],
  joining: Joining<Item, Answer> | undefined,
): Promise<void> {
  const joined: (() => void)[] = [];
  const resolve = (call: Call<Item, Answer>, answer: Answer): void => {
    call.resolve(answer);
    for (const other of call.joined ?? []) joined.push(() => other.resolve(joining!.asJoined(answer)));
  };
  const reject = (call: Call<Item, Answer>, error: unknown): void => {
    call.reject(error);
    for (const other of call.joined ?? []) joined.push(() => other.reject(error));
  };
  try {
    const answers = await flush(batch.map((call) => call.item));
    batch.forEach((call, i) => resolve(call, answers[i] as Answer));
  } catch (error) {
    // An error of ours is about the database as a whole: it is away, or not migrated. Anything else may
    // be the fault of one row, which must not fail the others: each for itself.
    if (batch.length === 1 || error instanceof OncewardError) for (const call of batch) reject(call, error);
    else
      for (const call of batch)
        await flush([call.item]).then(
          (answers) => resolve(call, answers[0] as Answer),
          (one: unknown) => reject(call, one),
        );
  }
  void inTurns(joined);
}

async function inTurns(answers: readonly (() => void)[]): Promise<void> {
  for (const [i, answer] of answers.entries()) {
    if (i > 0 && i % joinedPerTurn === 0) await new Promise(setImmediate);
    answer();
  }
}
