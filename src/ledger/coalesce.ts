import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";

export interface CoalesceOptions<Item> {
  /** The most items of one flush; it bounds the time one statement takes. */
  readonly max?: number | undefined;
  /** At most so many flushes at once; one where a single session serves everybody. */
  readonly flushes?: number | undefined;
  /** Somebody goes on as soon as a call is answered; left out where answers only end what is done. */
  readonly awaited?: boolean | undefined;
  /** Their answers start nothing in this process, which passes them on: fewer and larger flushes serve them best. */
  readonly passedOn?: boolean | undefined;
  /** Flushes of another kind go first, which may take these along. */
  readonly yields?: boolean | undefined;
  /** Equal for those that stand in each other's way in the database, and quick to say: one of them is under way at a time. */
  readonly nameOf?: ((item: Item) => string) | undefined;
}

/** Calls that share flushes. */
export interface Coalesced<Item, Answer> {
  (item: Item): Promise<Answer>;
  /** Takes out those who wait and may go along with the flush of another kind, which then answers them. */
  take(mayGoAlong: (item: Item) => boolean): Call<Item, Answer>[];
  /** That flush failed: they go out by themselves, and along with nobody any more. */
  giveBack(calls: readonly Call<Item, Answer>[]): void;
}

/** How calls that say the same, and so have one name, share one item of a batch. */
export interface Joining<Item, Answer> {
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
 * The same where answers are only passed on, which are sent as soon as so many wait and nothing is under way, not at the
 * end of a turn: then the database has one half of all callers while this process has the other. Measured with 64
 * connections that deliver events: 14 % more a second, and a sixth less CPU of Postgres (ratios in eight rounds, ± 3 %).
 * Jobs that are run here, in turns like this: a fifth less.
 */
const passedOn = { worthAnother: 64, worthSending: 24 };

/**
 * More than this are sent in halves: while the database works on one, this process runs what came of the other.
 * All at once, each waits for the other. A statement costs the database as much as about ten of its items, so halves
 * of less are no gain. Measured with 64 callers who enqueue and run empty jobs: 20 % more a second.
 */
const worthHalving = 32;

/**
 * A flush that takes so long waits for somebody's lock, such as an open transaction that has recorded the same key; or
 * the database is busy. Others do not wait for its end any longer. In ms: ten times what a flush takes.
 */
const slowMs = 50;

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
  /** Not along with a flush of another kind. */
  stays?: boolean;
  /** In a flush of its own. */
  goesAlone?: boolean;
}

/** A flush under way. */
interface Flight {
  isSlow: boolean;
  /** What is said in it. */
  readonly names: ReadonlySet<string> | undefined;
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
  options: CoalesceOptions<Item> & { readonly joining?: Joining<Item, Answer> | undefined } = {},
): Coalesced<Item, Answer> {
  const { max = 100, flushes = 1, awaited = false, yields = false, nameOf, joining } = options;
  const worth = options.passedOn ? passedOn : { worthAnother, worthSending: Infinity };
  let waiting: Call<Item, Answer>[] = [];
  // Made anew each time: a set that lives long grows, and each of the tables that it leaves behind keeps the next one,
  // with the names in it, from being collected soon.
  let underWay: readonly Flight[] = [];
  /** How many of them are not slow. */
  let quick = 0;
  /** A flush is everybody's: it must not carry along the async context of whoever came first. */
  const outside = AsyncLocalStorage.snapshot();
  let planned = false;
  let watching = false;

  const isTime = (): boolean =>
    waiting.length > 0 && underWay.length < flushes && (quick === 0 || waiting.length >= worth.worthAnother);

  const isSaid = (name: string): boolean => underWay.some(({ names }) => names?.has(name));

  function send(): void {
    while (isTime()) {
      const half = awaited && flushes > 1 ? Math.max(worthHalving, Math.ceil(waiting.length / 2)) : max;
      const batch = takeBatch(Math.min(half, max));
      if (batch.length === 0) break;
      fly(batch);
    }
    watch();
  }

  function fly(batch: readonly Call<Item, Answer>[]): void {
    const names = nameOf && namesIn(batch, nameOf);
    const flight: Flight = { isSlow: false, names };
    underWay = [...underWay, flight];
    quick++;
    void settle(flush, batch, joining).then((alone) => {
      for (const one of alone) one.goesAlone = true;
      if (alone.length > 0) waiting = [...alone, ...waiting];
      underWay = underWay.filter((one) => one !== flight);
      if (!flight.isSlow) quick--;
      send();
    });
  }

  /**
   * The first of those who wait, so many of them that differ. Who says what is under way waits for its end: where that
   * one waits for a lock, so would he, with one more flush.
   */
  function takeBatch(size: number): readonly Call<Item, Answer>[] {
    const batch: Call<Item, Answer>[] = [];
    const held: Call<Item, Answer>[] = [];
    const byName = new Map<string, Call<Item, Answer>>();
    let seen = 0;
    for (const call of waiting) {
      const name = nameOf?.(call.item);
      const other = joining && name !== undefined ? byName.get(name) : undefined;
      if (name !== undefined && isSaid(name)) held.push(call);
      else if (other && joining?.isEqual(other.item, call.item)) (other.joined ??= []).push(call);
      else if (batch.length === size || (batch[0] && (batch[0].goesAlone || call.goesAlone))) break;
      else {
        batch.push(call);
        if (name !== undefined && !other) byName.set(name, call);
      }
      seen++;
    }
    if (held.length === 0) waiting.splice(0, seen);
    else if (batch.length > 0) waiting = [...held, ...waiting.slice(seen)];
    return batch;
  }

  /** Looks after a while whether those under way still are, where somebody waits for them. */
  function watch(): void {
    if (watching || waiting.length === 0 || quick === 0 || underWay.length >= flushes) return;
    watching = true;
    const seen = underWay;
    const look = (): void => {
      watching = false;
      for (const flight of seen) {
        if (flight.isSlow || !underWay.includes(flight)) continue;
        flight.isSlow = true;
        quick--;
      }
      send();
    };
    outside(() => setTimeout(look, slowMs));
  }

  function planSend(): void {
    if (planned) return;
    if (!isTime()) return watch();
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
      // Not again for each one more: many may wait for the same slow one, and all of them are looked at.
      if (quick === 0 && waiting.length === worth.worthSending) outside(send);
      else planSend();
    });
  return Object.assign(call, {
    take(mayGoAlong: (item: Item) => boolean): Call<Item, Answer>[] {
      const taken: Call<Item, Answer>[] = [];
      if (waiting.length === 0) return taken;
      waiting = waiting.filter((one) => {
        const goes = taken.length < max && !one.stays && !one.goesAlone && mayGoAlong(one.item);
        if (goes) taken.push(one);
        return !goes;
      });
      return taken;
    },
    giveBack(calls: readonly Call<Item, Answer>[]): void {
      for (const one of calls) one.stays = true;
      waiting = [...calls, ...waiting];
      planSend();
    },
  });
}

function itemOf<Item>({ item }: Call<Item, never>): Item {
  return item;
}

function namesIn<Item>(batch: readonly Call<Item, never>[], nameOf: (item: Item) => string): Set<string> {
  const names = new Set<string>();
  for (const { item } of batch) names.add(nameOf(item));
  return names;
}

/** Tells everybody what came of a flush, but for those who have to try again, each for himself. */
async function settle<Item, Answer>(
  flush: (items: readonly Item[]) => Promise<readonly Answer[]>,
  batch: readonly Call<Item, Answer>[],
  joining: Joining<Item, Answer> | undefined,
): Promise<readonly Call<Item, Answer>[]> {
  const joined: (() => void)[] = [];
  let alone: readonly Call<Item, Answer>[] = [];
  try {
    const answers = await flush(batch.map(itemOf));
    for (const [i, call] of batch.entries()) {
      const answer = answers[i] as Answer;
      call.resolve(answer);
      for (const other of call.joined ?? []) joined.push(() => other.resolve(joining!.asJoined(answer)));
    }
  } catch (error) {
    // An error of ours is about the database as a whole: it is away, or not migrated. Anything else may
    // be the fault of one row, which must not fail the others.
    if (batch.length > 1 && !(error instanceof OncewardError)) alone = batch;
    else
      for (const call of batch) {
        call.reject(error);
        for (const other of call.joined ?? []) joined.push(() => other.reject(error));
      }
  }
  void inTurns(joined);
  return alone;
}

async function inTurns(answers: readonly (() => void)[]): Promise<void> {
  for (const [i, answer] of answers.entries()) {
    if (i > 0 && i % joinedPerTurn === 0) await new Promise(setImmediate);
    answer();
  }
}
