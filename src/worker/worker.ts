import { AsyncLocalStorage } from "node:async_hooks";
import { currentDryRun } from "../database/dry-run.ts";
import { OncewardError } from "../errors.ts";
import { quietly } from "../quietly.ts";
import { freshlyClaimed, type Ledger } from "../ledger/ledger.ts";
import type { ClaimedTask, NewTask, Recorded } from "../ledger/task.ts";
import { Announcer } from "./announcer.ts";
import { type Lane, laneName, laneOf, type Ran } from "./lane.ts";
import { type Instant, instant, type Lease, longestTimerMs } from "./lease.ts";
import { Leases, lost } from "./leases.ts";
import { Line, type Standing } from "./line.ts";
import { Places } from "./places.ts";
import { runTask } from "./run.ts";
import { Waiting } from "./waiting.ts";

export interface WorkerOptions {
  /** At most so many tasks at once in this process. Default 32. */
  readonly concurrency?: number | undefined;
  /** How often to look for due work when nothing says that there is some. Default 2 s. */
  readonly pollMs?: number | undefined;
  /** How long tasks may go on after `stop` before they are handed back. Default 10 s. */
  readonly graceMs?: number | undefined;
  /** Told how each attempt ended, but of actions: their callers are told. */
  readonly onRan?: ((task: ClaimedTask, ran: Ran, ms: number) => void) | undefined;
  /** Told when the database cannot be asked for work; the worker goes on trying. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The first and the longest pause after the database did not answer, so that a restart is not met by a storm. */
const errorPauseMs = 250;
const longestErrorPauseMs = 2_000;
/** How long `stop` waits for a database that does not answer, after the grace: then the leases have to run out. */
const lastWordsMs = 5_000;
/** How often a worker says that it is there, and lanes are tended. */
const tendEveryMs = 30_000;
/** What was taken ahead and still waits after so long goes back: somebody else may have room. */
const staleMs = 1_000;

/** A task that this process holds. */
interface Place extends Standing<Place> {
  readonly lane: Lane;
  readonly task: ClaimedTask;
  readonly lease: Lease;
}

/**
 * Claims due tasks in batches and runs them with bounded concurrency. What it holds is leased, renewed,
 * and handed back at once when it stops.
 */
export class Worker {
  readonly ledger: Ledger;
  readonly leases: Leases;
  readonly #lanes: ReadonlyMap<string, Lane>;
  readonly #options: WorkerOptions;
  readonly #pollMs: number;
  readonly #announcer: Announcer;
  /** Tasks run outside of the async context of whoever enqueued them, as they would in any other process. */
  readonly #outside = AsyncLocalStorage.snapshot();
  readonly #waiting = new Waiting<Place>();
  readonly #running = new Line<Place>();
  #places = new Places([], 0);
  #state: "new" | "starting" | "started" | "stopped" = "new";
  #stopping: Promise<void> | undefined;
  #loop: Promise<void> | undefined;
  #wakeUp: (() => void) | undefined;
  #woken = false;
  /** What must end before `stop` does: offers, runs, what is being handed back. */
  #pending = 0;
  #whenIdle: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #tending: Promise<void> | undefined;
  #unlisten: (() => Promise<void>) | undefined;

  constructor(ledger: Ledger, lanes: ReadonlyMap<string, Lane>, options: WorkerOptions = {}) {
    this.ledger = ledger;
    this.leases = new Leases(ledger);
    this.#announcer = new Announcer(ledger.verbs);
    this.#lanes = lanes;
    this.#options = options;
    this.#pollMs = timerMs(options.pollMs ?? 2_000);
  }

  async start(): Promise<void> {
    if (this.#state !== "new") throw new OncewardError("config_invalid", "This worker was started before.");
    this.#state = "starting";
    try {
      await this.#tend();
    } catch (error) {
      if (this.#isStarting()) this.#state = "new";
      throw error;
    }
    if (!this.#isStarting()) return;
    this.#places = new Places(this.#lanes.values(), this.#options.concurrency ?? 32);
    this.#state = "started";
    this.#timer = setInterval(() => this.#tend().catch((error) => this.#report(error)), tendEveryMs);
    this.#loop = this.#work();
  }

  /** Whether what is recorded is run here; also while it stops, since then others run it, or this one when it is back. */
  get started(): boolean {
    return this.#state !== "new";
  }

  /** Look for due work now. */
  wake(): void {
    this.#woken = true;
    this.#wakeUp?.();
  }

  /**
   * Records a task. Where this process has room it is recorded as claimed and starts at once; else
   * it waits in the ledger for whoever is free.
   */
  async offer(task: NewTask): Promise<Recorded> {
    if (currentDryRun()) return this.ledger.record(task);
    const lane = laneOf(this.#lanes, task.scope);
    const dueInMs = task.ignored === undefined ? dueIn(task) : Infinity;
    // Limits across processes are kept by claiming what is due, not by claiming one task by name.
    const here =
      dueInMs <= 0 && lane && !lane.limit && this.#state === "started" && this.#places.takeOffer(lane);
    const recorded = here ? await this.#recordHere(lane, task) : await this.ledger.record(task);
    // Also of what is due before the next poll: then it is known when to look.
    if (recorded.outcome === "recorded" && dueInMs < this.#pollMs) this.announce(task.scope);
    return recorded;
  }

  /** Something of this scope is due: look for it, or tell those who have room. */
  announce(scope: string): void {
    if (currentDryRun()) return;
    const lane = laneOf(this.#lanes, scope);
    this.wake();
    const isForUs = lane && this.#state === "started" && this.#places.room(lane) > 0;
    if (!isForUs) this.#announcer.tell(lane?.name ?? laneName(scope));
  }

  /** Tells how an attempt ended, of this worker or of a sender who waited for it. */
  tellRan(task: ClaimedTask, ran: Ran, ms: number): void {
    quietly(
      () => this.#options.onRan?.(task, ran, ms),
      (error) => this.#report(error),
    );
  }

  /** Takes no more work, lets what runs finish for a while, hands the rest back at once. */
  async stop(options: { graceMs?: number } = {}): Promise<void> {
    if (this.#state === "new") await this.#announcer.settle();
    else await (this.#stopping ??= this.#stop(timerMs(options.graceMs ?? this.#options.graceMs ?? 10_000)));
  }

  async #stop(graceMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timerMs(graceMs + lastWordsMs));
    });
    await Promise.race([this.#drain(graceMs), timeout]);
    clearTimeout(timer);
  }

  async #drain(graceMs: number): Promise<void> {
    this.#state = "stopped";
    clearInterval(this.#timer);
    this.wake();
    for (const place of this.#waiting) this.#giveBack(place);
    const grace = setTimeout(() => {
      for (const { lane, task, lease } of this.#running) {
        lease.abort(lost("the process stops, and the task was handed back"));
        // Where its code has ended, the ledger is being told just now.
        if (!lease.ended) void this.#handBack(lane, task);
      }
    }, graceMs);
    await this.#loop;
    if (this.#pending > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    clearTimeout(grace);
    await this.#tending?.catch(() => undefined);
    await this.#announcer.settle();
    await this.#unlisten?.().catch(() => undefined);
    await this.ledger.verbs.goodbye(this.ledger.worker).catch(() => undefined);
  }

  /** `stop` may have come while we waited. */
  #isStarting(): boolean {
    return this.#state === "starting";
  }

  /** Says that this worker is there, looks after the lanes, and listens; again every half minute. */
  #tend(): Promise<void> {
    this.#tending ??= this.#tendOnce().finally(() => (this.#tending = undefined));
    return this.#tending;
  }

  async #tendOnce(): Promise<void> {
    await this.ledger.verbs.hello(this.ledger.worker, [...this.#lanes.keys()]);
    for (const lane of this.#lanes.values()) await lane.tend?.(this.ledger);
    // Polling finds everything too, a little later: not to be able to listen is no reason not to start.
    this.#unlisten ??= await this.ledger.database
      .listen?.("onceward", (lane) => {
        if (lane === "" || this.#lanes.has(lane)) this.wake();
      })
      .catch((error: unknown) => this.#report(error));
  }

  async #work(): Promise<void> {
    let after: string | null = null;
    /** When the next task is due, as far as the pages of this round have said. */
    let nextAt = Infinity;
    let errors = 0;
    while (this.#state === "started") {
      this.#woken = false;
      this.#giveBackStale();
      const ask = this.#places.ask();
      if (!ask) {
        await this.#pause(this.#pollMs);
        continue;
      }
      try {
        const { max, lanes, limits } = ask;
        const { leaseMs, worker, verbs } = this.ledger;
        const asked = instant();
        const due = await verbs.claimDue(lanes, { max, leaseMs, worker, after, limits });
        this.#places.answered(this.#takeAll(due.tasks, asked));
        if (after === null) nextAt = Infinity;
        if (due.nextInMs !== null) nextAt = Math.min(nextAt, performance.now() + due.nextInMs);
        after = due.after;
        errors = 0;
        if (due.tasks.length < max && after === null)
          await this.#pause(Math.min(this.#pollMs, nextAt - performance.now()));
      } catch (error) {
        this.#report(error);
        await this.#rest(Math.min(errorPauseMs * 2 ** errors++, longestErrorPauseMs));
      }
    }
  }

  /** Until somebody wakes us. */
  async #pause(ms: number): Promise<void> {
    if (!this.#woken) await this.#rest(ms, () => this.#woken);
  }

  /** Until the time is over, it is enough, or the worker stops. */
  #rest(ms: number, enough = () => false): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#wakeUp = undefined;
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, ms));
      this.#wakeUp = () => {
        if (this.#state !== "started" || enough()) done();
      };
    });
  }

  /** A place is reserved for it. */
  async #recordHere(lane: Lane, task: NewTask): Promise<Recorded> {
    this.#pending++;
    try {
      const asked = instant();
      const recorded = await this.ledger.recordAndClaim(task);
      if (recorded.outcome === "claimed")
        this.#take(recorded.task ?? freshlyClaimed(task, recorded.attempt), asked);
      return recorded;
    } finally {
      this.#places.dismiss(lane);
      this.#ended();
    }
  }

  /** What came starts after the next claim has been sent: then the database works while we do. */
  #takeAll(tasks: readonly ClaimedTask[], asked: Instant): (Lane | undefined)[] {
    const starting: Place[] = [];
    const lanes = tasks.map((task) => this.#take(task, asked, starting));
    if (starting.length > 0)
      setImmediate(() => {
        for (const place of starting) this.#run(place);
      });
    return lanes;
  }

  /** A claim has come: start it, or let it wait for a place; hand it back where we have stopped meanwhile. */
  #take(task: ClaimedTask, asked: Instant, starting?: Place[]): Lane | undefined {
    const lane = laneOf(this.#lanes, task.scope);
    if (!lane || this.#state !== "started") {
      void this.#handBack(lane, task);
      return lane;
    }
    const lease = this.leases.hold(task, asked);
    const place: Place = { lane, task, lease, before: undefined, after: undefined };
    this.#places.expect(lane);
    this.#pending++;
    if (!this.#places.mayStart(lane)) this.#waiting.add(place);
    else {
      this.#seat(place);
      if (starting) starting.push(place);
      else this.#run(place);
    }
    return lane;
  }

  #seat(place: Place): void {
    this.#places.start(place.lane);
    this.#running.add(place);
  }

  #run(place: Place): void {
    void this.#outside(() => this.#runToEnd(place));
  }

  async #runToEnd(place: Place): Promise<void> {
    const { lane, task, lease } = place;
    const { ledger, leases } = this;
    let ms = 0;
    const onEnded = (took: number): void => {
      ms = took;
      this.#places.end(lane, task, ms);
      this.#startWaiting();
    };
    const ran = await runTask(lane, task, { ledger, leases, lease, onEnded });
    this.#running.delete(place);
    this.#places.leave();
    this.tellRan(task, ran, ms);
    // It may have made way for the next one of its group, or of its limited lane; or come back soon.
    if (task.serial !== null || lane.limit || ran.outcome === "waiting") this.wake();
    this.#ended();
  }

  #startWaiting(): void {
    if (this.#state !== "started") return;
    const mayStart = (lane: Lane): boolean => this.#places.mayStart(lane);
    while (this.#places.anyFree) {
      const place = this.#waiting.next(mayStart);
      if (!place) return;
      if (place.lease.aborted) {
        this.#forget(place);
      } else {
        this.#waiting.delete(place);
        this.#seat(place);
        this.#run(place);
      }
    }
  }

  /** Nothing that waits here may wait long while others have room. */
  #giveBackStale(): void {
    const now = performance.now();
    for (const place of this.#waiting.while(({ lease }) => now - lease.heldAt >= staleMs)) {
      this.#places.slow(place.lane, now - place.lease.heldAt);
      if (place.lease.aborted) this.#forget(place);
      else this.#giveBack(place);
    }
  }

  /** Gives back what has not started. */
  #giveBack(place: Place): void {
    void this.#handBack(place.lane, place.task);
    this.#forget(place);
  }

  /** It waited here and will not start. */
  #forget(place: Place): void {
    this.#waiting.delete(place);
    this.leases.release(place.lease);
    this.#places.dismiss(place.lane);
    this.#ended();
  }

  async #handBack(lane: Lane | undefined, task: ClaimedTask): Promise<void> {
    this.#pending++;
    // If the ledger cannot be told, the lease has to run out.
    const state = await this.ledger.verbs.defer(task).catch((error: unknown) => this.#report(error));
    if (state === "waiting") this.#announcer.tell(lane?.name ?? laneName(task.scope));
    this.#ended();
  }

  /** One pending thing less, and perhaps room for more. */
  #ended(): void {
    if (--this.#pending === 0) this.#whenIdle?.();
    if (this.#places.hasRoomForMore) this.wake();
  }

  #report(error: unknown): undefined {
    quietly(() => this.#options.onError?.(error));
  }
}

/** Milliseconds until a task is due, as far as our own clock can tell. */
/** As long as a timer can last, where somebody asked for longer, or for ever. */
function timerMs(ms: number): number {
  return Math.min(ms, longestTimerMs);
}

function dueIn({ delayMs = 0, dueAt }: NewTask): number {
  return dueAt ? dueAt.getTime() - Date.now() : delayMs;
}
