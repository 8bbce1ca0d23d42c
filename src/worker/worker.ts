import { OncewardError } from "../errors.ts";
import { freshlyClaimed, type Ledger } from "../ledger/ledger.ts";
import type { ClaimedTask, NewTask, Recorded } from "../ledger/task.ts";
import type { LaneLimit } from "../ledger/verbs.ts";
import type { Lane, Ran } from "./lane.ts";
import { Leases } from "./leases.ts";
import { runTask } from "./run.ts";

export interface WorkerOptions {
  /** At most so many tasks at once in this process. Default 32. */
  readonly concurrency?: number | undefined;
  /** How often to look for due work when nothing says that there is some. Default 2 s. */
  readonly pollMs?: number | undefined;
  /** How long tasks may go on after `stop` before they are handed back. Default 10 s. */
  readonly graceMs?: number | undefined;
  /** Told how each attempt ended. */
  readonly onRan?: ((task: ClaimedTask, ran: Ran, ms: number) => void) | undefined;
  /** Told when the database cannot be asked for work; the worker goes on trying. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A pause after the database did not answer, so that a restart is not met by a storm. */
const errorPauseMs = 500;
const helloEveryMs = 30_000;

interface Place {
  readonly lane: Lane;
  readonly controller: AbortController;
  readonly task: ClaimedTask;
}

/** A lane may take so much of the places and no more, so that one slow job leaves room for the others. */
const laneShare = 0.75;

/**
 * Claims due tasks in batches and runs them with bounded concurrency. It holds up to twice as many as
 * it runs, so that finishing one starts the next without a query; what it holds is leased, renewed,
 * and handed back at once when it stops.
 */
export class Worker {
  readonly ledger: Ledger;
  readonly leases: Leases;
  readonly #lanes: ReadonlyMap<string, Lane>;
  readonly #options: WorkerOptions;
  readonly #concurrency: number;
  /** How many tasks it holds at the most, running or next in line. */
  readonly #places: number;
  /** Room for less than this is not worth a query: some must finish first. */
  readonly #batch: number;
  readonly #waiting: Place[] = [];
  readonly #running = new Map<Place, Promise<void>>();
  readonly #heldByLane = new Map<string, number>();
  readonly #runningByLane = new Map<string, number>();
  #held = 0;
  #state: "new" | "started" | "stopping" = "new";
  #loop: Promise<void> | undefined;
  #wakeUp: (() => void) | undefined;
  #woken = false;
  #unlisten: (() => Promise<void>) | undefined;
  #hello: NodeJS.Timeout | undefined;

  constructor(ledger: Ledger, lanes: ReadonlyMap<string, Lane>, options: WorkerOptions = {}) {
    this.ledger = ledger;
    this.leases = new Leases(ledger);
    this.#lanes = lanes;
    this.#options = options;
    this.#concurrency = options.concurrency ?? 32;
    this.#places = 2 * this.#concurrency;
    this.#batch = Math.max(1, Math.floor(this.#places * (1 - laneShare)));
  }

  async start(): Promise<void> {
    if (this.#state !== "new") throw new OncewardError("config_invalid", "This worker was started before.");
    this.#state = "started";
    const names = [...this.#lanes.keys()];
    await this.ledger.verbs.hello(this.ledger.worker, names);
    this.#hello = setInterval(() => {
      this.ledger.verbs.hello(this.ledger.worker, names).catch((error) => this.#options.onError?.(error));
    }, helloEveryMs);
    this.#unlisten = await this.ledger.database.listen?.("onceward", (lane) => {
      if (lane === "" || this.#lanes.has(lane)) this.wake();
    });
    this.#loop = this.#work();
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
    const lane = laneOf(this.#lanes, task.scope);
    const now = !task.delayMs && !task.dueAt && !task.ignored;
    if (!lane || !now || this.#state !== "started" || this.#roomIn(lane) <= 0) {
      const recorded = await this.ledger.record(task);
      if (recorded.outcome === "recorded" && now) this.announce(task.scope);
      return recorded;
    }
    this.#count(lane, 1);
    let started = false;
    try {
      const recorded = await this.ledger.recordAndClaim(task);
      if (recorded.outcome === "claimed") {
        started = true;
        this.#place(lane, recorded.task ?? freshlyClaimed(task, recorded.attempt));
      }
      return recorded;
    } finally {
      if (!started) this.#count(lane, -1);
    }
  }

  /** Something of this scope is due: say so to this process, or to whoever listens. */
  announce(scope: string): void {
    if (this.#state === "started" && laneOf(this.#lanes, scope)) this.wake();
    // A lost word costs one poll.
    else this.ledger.verbs.wake([laneName(scope)]).catch(() => undefined);
  }

  /** Takes no more work, lets what runs finish for a while, hands the rest back at once. */
  async stop(options: { graceMs?: number } = {}): Promise<void> {
    if (this.#state !== "started") return;
    this.#state = "stopping";
    clearInterval(this.#hello);
    this.wake();
    await this.#loop;
    await Promise.all(this.#waiting.splice(0).map((place) => this.#handBack(place)));
    const grace = setTimeout(() => {
      for (const place of this.#running.keys()) void this.#handBack(place);
    }, options.graceMs ?? this.#options.graceMs ?? 10_000);
    await Promise.all(this.#running.values());
    clearTimeout(grace);
    await this.#unlisten?.().catch(() => undefined);
    await this.ledger.verbs.goodbye(this.ledger.worker).catch(() => undefined);
  }

  async #work(): Promise<void> {
    let after: string | null = null;
    while (this.#state === "started") {
      this.#woken = false;
      let pause = this.#options.pollMs ?? 2_000;
      const room = this.#room();
      if (room >= this.#batch) {
        try {
          const limits = this.#limits();
          const lanes = [...this.#lanes.keys()].filter((name) => limits[name]?.max !== 0);
          const { leaseMs, worker } = this.ledger;
          const due = await this.ledger.verbs.claimDue(lanes, { max: room, leaseMs, worker, after, limits });
          for (const task of due.tasks) this.#accept(task);
          after = due.after;
          if (due.tasks.length >= room || after !== null) pause = 0;
          else if (due.nextInMs !== null) pause = Math.min(pause, due.nextInMs);
        } catch (error) {
          this.#options.onError?.(error);
          pause = Math.max(pause, errorPauseMs);
        }
      }
      await this.#pause(pause);
    }
  }

  #pause(ms: number): Promise<void> {
    if (this.#woken) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#wakeUp = undefined;
        resolve();
      };
      // Without room there is nothing to look for; the end of a task wakes us.
      const timer = setTimeout(done, this.#room() >= this.#batch ? ms : 60_000);
      this.#wakeUp = done;
    });
  }

  #accept(task: ClaimedTask): void {
    const lane = laneOf(this.#lanes, task.scope);
    if (!lane) throw new OncewardError("handler_missing", `No lane for scope ${task.scope}.`);
    this.#count(lane, 1);
    this.#place(lane, task);
  }

  #place(lane: Lane, task: ClaimedTask): void {
    const place = { lane, task, controller: new AbortController() };
    if (this.#mayRun(lane)) {
      this.#begin(place);
    } else {
      this.#waiting.push(place);
      this.leases.hold(task, place.controller);
    }
  }

  #begin(place: Place): void {
    add(this.#runningByLane, place.lane.name, 1);
    this.#running.set(place, this.#run(place));
  }

  #mayRun(lane: Lane): boolean {
    const running = this.#runningByLane.get(lane.name) ?? 0;
    return this.#running.size < this.#concurrency && running < this.#share(lane, this.#concurrency);
  }

  async #run(place: Place): Promise<void> {
    const { lane, task, controller } = place;
    const began = performance.now();
    const { ledger, leases } = this;
    const ran = await runTask(lane, task, { ledger, leases, controller });
    this.#running.delete(place);
    add(this.#runningByLane, lane.name, -1);
    this.#count(lane, -1);
    this.#options.onRan?.(task, ran, performance.now() - began);
    const next = this.#nextWaiting();
    if (next) this.#begin(next);
    // A finished one may have made way for the next of its group; and room is there for more.
    if (task.serial !== null || this.#room() === this.#batch) this.wake();
  }

  #nextWaiting(): Place | undefined {
    if (this.#state !== "started") return undefined;
    for (;;) {
      const i = this.#waiting.findIndex((place) => place.controller.signal.aborted || this.#mayRun(place.lane));
      if (i < 0) return undefined;
      const next = this.#waiting.splice(i, 1)[0] as Place;
      if (!next.controller.signal.aborted) return next;
      // Taken over while it waited here.
      this.leases.release(next.task);
      this.#count(next.lane, -1);
    }
  }

  async #handBack(place: Place): Promise<void> {
    try {
      await this.ledger.verbs.defer(place.task);
    } catch {
      // Then its lease has to run out.
    }
    place.controller.abort(new OncewardError("claim_lost", "The process stops; the task was handed back."));
    this.leases.release(place.task);
  }

  /** How many more tasks this process may hold. */
  #room(): number {
    return this.#places - this.#held;
  }

  #roomIn(lane: Lane): number {
    return Math.min(this.#room(), this.#share(lane, this.#places) - (this.#heldByLane.get(lane.name) ?? 0));
  }

  #share(lane: Lane, of: number): number {
    return Math.min(lane.concurrency ?? of, this.#lanes.size > 1 ? Math.ceil(of * laneShare) : of);
  }

  #limits(): Record<string, LaneLimit> {
    const limits: Record<string, LaneLimit> = {};
    for (const lane of this.#lanes.values()) {
      const max = this.#roomIn(lane);
      if (lane.limit || max < this.#room()) limits[lane.name] = { ...lane.limit, max: Math.max(0, max) };
    }
    return limits;
  }

  #count(lane: Lane, change: 1 | -1): void {
    this.#held += change;
    add(this.#heldByLane, lane.name, change);
  }
}

function add(counts: Map<string, number>, name: string, change: number): void {
  counts.set(name, (counts.get(name) ?? 0) + change);
}

/** The lane that runs a scope: the longest name that is the scope or ends before a '/' in it. */
export function laneOf(lanes: ReadonlyMap<string, Lane>, scope: string): Lane | undefined {
  for (let name = scope; ; name = name.slice(0, name.lastIndexOf("/"))) {
    const lane = lanes.get(name);
    if (lane) return lane;
    if (!name.includes("/")) return undefined;
  }
}

/** The name of a scope's lane where the lane itself is not known here. */
function laneName(scope: string): string {
  return scope.startsWith("job/") ? scope : (scope.split("/", 1)[0] ?? scope);
}
