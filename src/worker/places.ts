import type { ClaimedTask } from "../ledger/task.ts";
import type { LaneLimit } from "../ledger/lane.ts";
import type { Lane } from "./lane.ts";

/** The part of the places that is kept for lanes which run little, so that slow ones cannot take them all. */
const keptShare = 0.25;
/** Tasks may be taken ahead for so long: what waits here longer could have started in another process. */
const horizonMs = 20;
/**
 * The same while more is due than was asked for: then others have work enough. A claim costs the server 1 ms and 35 µs
 * a task, so that twelve at a time take twice as much of it as sixty.
 */
const backlogHorizonMs = 100;
/**
 * The most that is taken ahead: two claims and a half, so that there is work while the next one is on its way. Measured on
 * a backlog of empty jobs: with one claim this process is idle for a third of the time, and a sixth slower; with
 * twice as much it is no faster.
 */
const maxAhead = 320;
/** The most of one claim: the sooner it answers, the sooner the next one is sent. */
const maxClaim = 128;
/** Payloads that wait in memory, in characters of a lane. */
const maxAheadLength = 8 * 1024 * 1024;
/** The shortest run that is told from none, in ms; it bounds a division. */
const shortestMs = 0.05;
/**
 * How much one run says about the next. Quick ones count more: a pause of the whole process makes all that run seem
 * slow, and what really is slow is noticed soon enough by what waits behind it.
 */
const quickerWeight = 1 / 8;
const slowerWeight = 1 / 64;
/**
 * So many times the concurrency may start of what was recorded here before more is claimed, where more waits in the
 * ledger: it must have its turn. Not at once, since what starts without a claim costs half: taking the long way
 * whenever there is a backlog would keep the backlog.
 */
const offersPerClaim = 4;

interface Seats {
  readonly lane: Lane;
  readonly max: number;
  running: number;
  /** Taken, or about to be, and not started yet. */
  waiting: number;
  /** How long its code runs, on average; unknown until one has ended. */
  ms: number | undefined;
  length: number;
  /** How many of it were asked for, and have not come. */
  asked: number;
  /** More of it may be due than there was room for. */
  wantsMore: boolean;
  /** Taken of what was recorded here since then. */
  offers: number;
}

export interface Ask {
  readonly max: number;
  readonly lanes: readonly string[];
  readonly limits: Readonly<Record<string, LaneLimit>>;
}

/**
 * Who may start, and how many more tasks to take. A lane may use every place but those kept for lanes that
 * run little. Of lanes whose tasks are quick, some are taken ahead, so that the end of one starts the next
 * without a query; of slow ones none, since they would wait here while other processes are idle.
 */
export class Places {
  readonly #concurrency: number;
  readonly #all: readonly Seats[];
  readonly #byName: ReadonlyMap<string, Seats>;
  /** Places kept for lanes that run little: all together, and for each. */
  readonly #kept: number;
  readonly #keptEach: number;
  /** How many places all lanes together have left of those kept for them. */
  #unused: number;
  #running = 0;
  /** Taken and not told yet. */
  #held = 0;

  constructor(lanes: Iterable<Lane>, concurrency: number) {
    this.#concurrency = concurrency;
    this.#all = Array.from(lanes, (lane) => {
      const max = Math.min(lane.concurrency ?? concurrency, concurrency);
      return {
        lane,
        max,
        running: 0,
        waiting: 0,
        ms: undefined,
        length: 0,
        asked: 0,
        wantsMore: false,
        offers: 0,
      };
    });
    this.#byName = new Map(this.#all.map((seats) => [seats.lane.name, seats]));
    const count = this.#all.length;
    this.#kept = count > 1 ? Math.floor(concurrency * keptShare) : 0;
    this.#keptEach = this.#kept > 0 ? Math.max(1, Math.floor(this.#kept / count)) : 0;
    this.#unused = this.#keptEach * count;
  }

  get anyFree(): boolean {
    return this.#running < this.#concurrency;
  }

  /** A task of this lane is here or on its way. */
  expect(lane: Lane): void {
    this.#of(lane).waiting++;
    this.#held++;
  }

  /** It did not come, or is given back before it started. */
  dismiss(lane: Lane): void {
    this.#of(lane).waiting--;
    this.#held--;
  }

  mayStart(lane: Lane): boolean {
    return this.#free(this.#of(lane)) > 0;
  }

  /** It starts. */
  start(lane: Lane): void {
    const seats = this.#of(lane);
    seats.waiting--;
    if (seats.running++ < this.#keptEach) this.#unused--;
    this.#running++;
  }

  /** Its code has ended. */
  end(lane: Lane, task: ClaimedTask, ms: number): void {
    const seats = this.#of(lane);
    if (--seats.running < this.#keptEach) this.#unused++;
    this.#running--;
    seats.ms ??= ms;
    seats.ms += (ms - seats.ms) * (ms < seats.ms ? quickerWeight : slowerWeight);
    seats.length += ((task.body?.length ?? 0) - seats.length) * quickerWeight;
  }

  /** The ledger has been told. */
  leave(): void {
    this.#held--;
  }

  /** Tasks of this lane waited here for so long: take none ahead until they are quick again. */
  slow(lane: Lane, ms: number): void {
    const seats = this.#of(lane);
    seats.ms = Math.max(seats.ms ?? 0, ms);
  }

  /** How many more tasks of a lane to take. */
  room(lane: Lane): number {
    return this.#room(this.#of(lane));
  }

  /** Reserves a place for what is recorded here, or says that it has to wait in the ledger. */
  takeOffer(lane: Lane): boolean {
    const seats = this.#of(lane);
    if (this.#room(seats) <= 0) return false;
    if (seats.wantsMore && ++seats.offers > offersPerClaim * this.#concurrency) return false;
    this.expect(lane);
    return true;
  }

  /** True when a lane of which more may be due has room again. */
  get hasRoomForMore(): boolean {
    return this.#all.some((seats) => seats.wantsMore && this.#isWorthAsking(seats));
  }

  /** How many tasks to ask for, and how many of each lane at most; undefined while a query is not worth it. */
  ask(): Ask | undefined {
    if (!this.#all.some((seats) => this.#isWorthAsking(seats))) {
      for (const seats of this.#all) seats.wantsMore = true;
      return undefined;
    }
    const rooms = this.#all.map((seats) => Math.min(this.#room(seats), maxClaim));
    // Each lane's room leaves what is kept for the others, so the largest fits any mixture of lanes.
    const max = Math.max(...rooms);
    const lanes: string[] = [];
    const limits: Record<string, LaneLimit> = {};
    this.#all.forEach((seats, i) => {
      const { name, limit } = seats.lane;
      const room = rooms[i] as number;
      seats.asked = room;
      if (room === 0) return;
      seats.offers = 0;
      lanes.push(name);
      if (limit || room < max) limits[name] = { ...limit, max: room };
    });
    return { max, lanes, limits };
  }

  /** What came of it: a lane that got all that was asked of it may have more. */
  answered(tasks: readonly (Lane | undefined)[]): void {
    for (const lane of tasks) if (lane) this.#of(lane).asked--;
    for (const seats of this.#all) seats.wantsMore = seats.asked <= 0;
  }

  /** A claim of few costs the database nearly as much as one of many: half of what may wait here. */
  #isWorthAsking(seats: Seats): boolean {
    return this.#room(seats) > this.#ahead(seats) / 2;
  }

  #room(seats: Seats): number {
    const room = this.#free(seats) + this.#ahead(seats) - seats.waiting;
    return Math.max(0, Math.min(room, this.#concurrency + maxAhead - this.#held));
  }

  /** How many tasks of a lane could start now. */
  #free(seats: Seats): number {
    const free = this.#concurrency - this.#running;
    const ownKept = Math.max(0, this.#keptEach - seats.running);
    const keptForOthers = Math.min(this.#kept, this.#unused - ownKept);
    return Math.min(seats.max - seats.running, Math.max(free - keptForOthers, Math.min(free, ownKept)));
  }

  #ahead({ lane, max, ms, length, wantsMore }: Seats): number {
    // What is taken counts as running in limits across processes.
    if (ms === undefined || lane.limit) return 0;
    const most = Math.min(maxAhead, Math.floor(maxAheadLength / Math.max(length, 1)));
    return Math.min(
      most,
      Math.floor((max * (wantsMore ? backlogHorizonMs : horizonMs)) / Math.max(ms, shortestMs)),
    );
  }

  #of(lane: Lane): Seats {
    const seats = this.#byName.get(lane.name);
    if (!seats) throw new Error(`No places for the lane ${lane.name}.`);
    return seats;
  }
}
