/**
 * One schedule of a workload: at every point where something can happen, a choice says what does. The first
 * option of each point goes on with what ran last and lets nothing go wrong; every other one costs something.
 */
import { type Op, type Process, Process as ProcessOf, type Session, cutOff } from "./process.ts";
import type { Reply } from "./live.ts";
import { verbOf } from "./params.ts";
import type { Action, Outcome } from "./place.ts";
import type { Replica } from "./replica.ts";
import { Down, type End, type Fault, Scene, type Violation, type Workload } from "./scene.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** The lease that workloads give their processes, and a pause and a call that outlast it. */
export const leaseMs = 60_000;
const pauseMs = 90_000;
const slowMs = 150_000;
/** A process that died is started again after so long. */
const restartMs = 5_000;
/** When all is done, what was started is given so long to say its last word: longer than the ledger is tried again. */
const graceMs = 15_000;
/** Within so long after the last fault all comes to rest: lease, poll, the longest pause or answer, and backoffs, with room to spare. */
export const longestRecoveryMs = 6 * 60_000;
/** More steps than any schedule needs that comes to rest. */
const mostSteps = 400;

export interface Option {
  readonly op: Op | undefined;
  readonly fault: Fault | undefined;
  readonly resume: Process | undefined;
  /** How far from the default: 1 for going on elsewhere, 1 for a fault. */
  readonly cost: number;
}

/** Says which option to take at a point; 0 is the default. */
export type Choose = (options: readonly Option[], point: number) => number;

export interface Step {
  readonly atMs: number;
  readonly option: Option;
  readonly reply: Reply | "blocked" | undefined;
  readonly answer: unknown;
  readonly inTransaction: boolean;
}

export interface Played {
  /** For every point with a choice, the cost of each option. */
  readonly points: readonly (readonly number[])[];
  readonly violations: readonly Violation[];
  readonly steps: readonly Step[];
  readonly end: End;
}

/** What becomes of the answer to something that was done: it arrives, it waits for a stopped process, or it is lost. */
type Answering = "arrives" | "waits" | "lost";

interface Blocked {
  readonly op: Op;
  readonly answer: Answering;
}

const outside = { alive: true, paused: false };

export class Schedule<App> {
  readonly #workload: Workload<App>;
  readonly #replica: Replica;
  readonly #time: VirtualTime;
  readonly #choose: Choose;
  readonly #scene: Scene<App>;
  readonly #up = new Map<string, { process: Process; app: App }>();
  readonly #starts = new Map<string, number>();
  readonly #pending: Op[] = [];
  readonly #blocked = new Map<string, Blocked>();
  readonly #waiters = new Map<Process, Set<(error: Error) => void>>();
  /** What follows from a step once the code that it set in motion has come to rest. */
  readonly #next: (() => void | Promise<void>)[] = [];
  readonly #points: number[][] = [];
  readonly #steps: Step[] = [];
  readonly #faults: Fault[] = [];
  readonly #violations: Violation[] = [];
  /** When each pending op came: what the last step brought goes first. */
  readonly #arrived = new Map<Op, number>();
  #acting = 0;
  /** Calls whose answer takes long. */
  readonly #slow = new Set<Op>();
  #lastEvent = 0;
  #settledAt: number | undefined;
  /** The process of the last step, where the option to crash after it was there. */
  #couldCrash: Process | undefined;

  constructor(workload: Workload<App>, replica: Replica, time: VirtualTime, choose: Choose) {
    this.#workload = workload;
    this.#replica = replica;
    this.#time = time;
    this.#choose = choose;
    this.#scene = new Scene<App>({
      submit: (op) => this.#submit(op),
      running: () => this.#time.running as Process,
      app: (name) => this.#up.get(name),
      enter: (process, fn) => this.#enter(process, fn),
      sleep: (ms) => new Promise((resolve) => this.#time.setTimer(outside, ms, resolve)),
    });
  }

  async play(): Promise<Played> {
    this.#time.reset();
    this.#replica.reset();
    for (const name of this.#workload.processes) {
      this.#boot(name);
      await this.#time.rest();
    }
    this.#time.run(outside, () => {
      for (const [name, act] of Object.entries(this.#workload.actors(this.#scene))) this.#follow(name, act);
    });
    while (await this.#happen()) {
      if (this.#steps.length > mostSteps) {
        this.#violations.push({ invariant: "I5", what: `no rest after ${mostSteps} steps` });
        break;
      }
    }
    for (const { process } of this.#up.values()) process.alive = false;
    return this.#played();
  }

  /** Lets one thing happen; false when nothing is left. */
  async #happen(): Promise<boolean> {
    await this.#rest();
    const ready = this.#ready();
    // Asked of the database only where it matters; and waited for only where it is not known.
    const found = ready[0] && isPoll(ready[0]) ? this.#finds(ready[0]) : true;
    const options = this.#options(ready, typeof found === "boolean" ? found : await found);
    if (options.length === 0) return this.#pass();
    let pick = 0;
    if (options.length > 1) {
      pick = this.#choose(options, this.#points.length);
      this.#points.push(options.map((option) => option.cost));
    }
    const option = options[pick];
    if (!option)
      throw new Error(`Point ${this.#points.length} has no option ${pick}: the schedule cannot be repeated.`);
    if (option.fault) {
      this.#faults.push(option.fault);
      this.#lastEvent = this.#time.now;
    }
    // Where it could have crashed after this step, it need not do so before its next one.
    const { op } = option;
    const crashable = options.some((other) => other.op === op && other.fault === "crash after")
      ? op?.process
      : undefined;
    const applying = this.#apply(option);
    if (applying) await applying;
    this.#couldCrash = crashable;
    return true;
  }

  /** Everything that needs no choice: news for the world outside, timers that are due, silent statements. */
  async #rest(): Promise<void> {
    for (;;) {
      if (this.#time.running) await this.#time.rest();
      const next = this.#next.shift();
      const silent = next ? undefined : this.#pending.find((op) => op.silent && !op.process?.paused);
      if (next || silent) {
        const doing = next ? next() : this.#performSilent(silent!);
        if (doing) await doing;
      } else if (!this.#time.fireDue()) {
        if (!this.#replica.isSettled) await this.#hangUp();
        // Who waited for that goes on.
        if (!this.#time.running) break;
      }
    }
  }

  #performSilent(op: Op): void | Promise<void> {
    this.#remove(op);
    return this.#perform(op, "arrives");
  }

  /** Nothing can happen now: time goes on. */
  #pass(): boolean {
    const { now } = this.#time;
    const isSettled =
      this.#acting === 0 && this.#slow.size === 0 && this.#blocked.size === 0 && this.#isSettled();
    if (!isSettled) this.#settledAt = undefined;
    else this.#settledAt ??= now;
    // I5 is broken: what would come now takes long to play, and tells nothing more.
    if (!isSettled && this.#acting === 0 && now - this.#lastEvent > longestRecoveryMs) return false;
    const next = this.#time.nextAt();
    if (next === undefined || (this.#settledAt !== undefined && next > this.#settledAt + graceMs)) {
      if (!isSettled)
        this.#violations.push({ invariant: "I5", what: "something is left to do, and nobody will do it" });
      return false;
    }
    this.#time.now = next;
    return true;
  }

  #isSettled(): boolean {
    for (const { process } of this.#up.values()) if (process.paused) return false;
    if (!this.#replica.isSettled) return false;
    const rows = this.#replica.rows();
    const { settled, hot } = this.#workload;
    return (
      settled?.(rows) ?? rows.of("onceward.task").every((task) => task["due_at"] === null || hot?.(task))
    );
  }

  /** What came of the last step goes first: by default a process goes on until it waits. */
  #ready(): Op[] {
    const isFresh = (op: Op): boolean => this.#arrived.get(op) === this.#steps.length;
    const able = this.#pending.filter((op) => !op.process?.paused);
    return able.length < 2 ? able : [...able.filter(isFresh), ...able.filter((op) => !isFresh(op))];
  }

  /** `finds`: whether the first, where that looks for work, would find some. */
  #options(ready: readonly Op[], finds: boolean): Option[] {
    const options: Option[] = ready.map((op, i) => ({
      op,
      fault: undefined,
      resume: undefined,
      cost: i === 0 ? 0 : 1,
    }));
    for (const { process } of this.#up.values()) {
      if (process.paused && this.#time.now >= process.pausedAt + leaseMs) {
        options.push({ op: undefined, fault: undefined, resume: process, cost: ready.length === 0 ? 0 : 1 });
      }
    }
    for (const [i, op] of ready.entries()) {
      if (isPoll(op) && (i > 0 || !finds)) continue;
      for (const fault of this.#faultsOf(op))
        options.push({ op, fault, resume: undefined, cost: i === 0 ? 1 : 2 });
    }
    return options;
  }

  /** Whether a worker that looks for work would find some: else it does not matter what goes wrong while it looks. */
  #finds({ session, what }: Op): boolean | Promise<boolean> {
    if (!session || typeof what === "string") return false;
    this.#setClock();
    return this.#replica.changes({ do: "run", session: session.name, statement: what });
  }

  #setClock(): void {
    if (this.#replica.nowMs !== this.#time.now) this.#replica.setClock(this.#time.now);
  }

  #faultsOf(op: Op): Fault[] {
    if (!op.process) return [];
    const within = !isCommit(op) && this.#isOpen(op.session);
    // What is not committed is gone whether a process dies before or after it.
    const all: Fault[] = within
      ? ["crash before", "cut off", "pause before", "pause after"]
      : ["crash before", "crash after", "answer lost", "cut off", "pause before", "pause after"];
    if (op.kind === "outside") all.push("slow");
    const wanted = this.#workload.faults;
    return all.filter((fault) => {
      // The same as to crash after the step before, which could be chosen there.
      if (fault === "crash before" && this.#couldCrash === op.process) return false;
      return !wanted || wanted.includes(fault);
    });
  }

  /** A promise where the database has to be asked. */
  #apply(option: Option): void | Promise<void> {
    const { op, fault, resume } = option;
    if (resume) {
      this.#steps.push(this.#step(option, undefined));
      return this.#resume(resume);
    }
    if (!op) throw new Error("An option without anything to do.");
    const { process } = op;
    if (fault !== "pause before") this.#remove(op);
    if (!fault || !process) return this.#perform(op, "arrives", option);
    return this.#goWrong(option, op, process);
  }

  async #goWrong(option: Option, op: Op, process: Process): Promise<void> {
    switch (option.fault) {
      case undefined:
        break;
      case "crash before":
        this.#steps.push(this.#step(option, undefined));
        await this.#crash(process);
        break;
      case "crash after":
        await this.#perform(op, "lost", option);
        await this.#quiet();
        await this.#crash(process);
        break;
      case "answer lost":
        await this.#perform(op, "lost", option);
        await this.#quiet();
        await this.#cut(op);
        break;
      case "cut off":
        this.#steps.push(this.#step(option, undefined));
        await this.#cut(op);
        break;
      case "pause before":
        this.#steps.push(this.#step(option, undefined));
        this.#pause(process);
        break;
      case "pause after":
        this.#pause(process);
        await this.#perform(op, "waits", option);
        break;
      case "slow": {
        const answer = this.#effect(op, option);
        this.#slow.add(op);
        this.#time.setTimer(process, slowMs, () => {
          this.#slow.delete(op);
          op.succeed(answer);
        });
        break;
      }
    }
  }

  #isOpen(session: Session | undefined): boolean {
    return session !== undefined && (session.begun !== undefined || this.#replica.isOpen(session.name));
  }

  /** A promise where the database has to be asked. */
  #perform(op: Op, answering: Answering, option?: Option): void | Promise<void> {
    if (op.kind !== "sql") {
      // People and networks take time, so that what they do one after the other has different times.
      if (op.kind === "act") this.#time.now++;
      const answer = this.#effect(op, option);
      this.#answer(op, answering, () => op.succeed(answer));
      return undefined;
    }
    const { session, what } = op;
    if (!session || typeof what === "string") throw new Error("A statement without a session.");
    if (this.#beginOrEnd(op, session, what.text, answering)) return undefined;
    const step = option && this.#step(option, undefined);
    const action: Action = { do: "run", session: session.name, statement: what, begin: session.begun };
    session.begun = undefined;
    this.#setClock();
    const take = (outcome: Outcome): void | Promise<void> => {
      if (step) this.#steps.push({ ...step, reply: outcome.reply });
      if (outcome.reply === "blocked") this.#blocked.set(session.name, { op, answer: answering });
      else if (outcome.reply) this.#reply(op, answering, outcome.reply);
      return outcome.woken.length > 0 ? this.#wake(outcome) : undefined;
    };
    const known = this.#replica.known(action);
    return known ? take(known) : this.#replica.step(action).then(take);
  }

  /** What begins a transaction does nothing yet, nor does ending one in which nothing was done. */
  #beginOrEnd(op: Op, session: Session, text: string, answering: Answering): boolean {
    const isBegin = /^begin/i.test(text);
    if (!isBegin && !(session.begun && /^(commit|rollback)/i.test(text))) return false;
    // Without what it says of real time: here it is the scheduler who lets it pass.
    session.begun = isBegin ? text.split(";")[0] : undefined;
    const command = isBegin ? "BEGIN" : text.toUpperCase();
    this.#answer(op, answering, () => op.succeed({ rows: [], rowCount: null, command }));
    return true;
  }

  #effect(op: Op, option: Option | undefined): unknown {
    const answer = op.effect?.();
    if (option) this.#steps.push({ ...this.#step(option, undefined), answer });
    return answer;
  }

  /** Those who waited for a lock have been answered. */
  async #wake(outcome: Outcome): Promise<void> {
    for (const { session, reply } of outcome.woken) {
      const blocked = this.#blocked.get(session);
      if (!blocked) continue;
      this.#blocked.delete(session);
      const { op } = blocked;
      const gone = blocked.answer === "lost" || !op.process?.alive;
      await this.#quiet();
      if (!gone) this.#reply(op, op.process?.paused ? "waits" : "arrives", reply);
      // Nobody is at the other end: what it did is undone, unless it is committed.
      else if (this.#replica.isOpen(session))
        await this.#wake(await this.#replica.step({ do: "end", session }));
    }
  }

  #reply(op: Op, answering: Answering, reply: Reply): void {
    this.#answer(op, answering, () => {
      if ("error" in reply)
        op.fail(Object.assign(new Error(reply.error.message), { code: reply.error.code }));
      else op.succeed({ ...reply, rows: JSON.parse(reply.rows) as unknown });
    });
  }

  #answer(op: Op, answering: Answering, answer: () => void): void {
    if (answering === "lost" || (op.process && !op.process.alive)) return;
    if (answering === "waits" && op.process) holdBack(op.process, answer);
    else this.#time.run(op.process ?? outside, answer);
  }

  #pause(process: Process): void {
    process.paused = true;
    process.pausedAt = this.#time.now;
    this.#time.setTimer(outside, pauseMs, () => {
      this.#next.push(() => {
        // Unless it went on before.
        if (!process.paused || !process.alive) return undefined;
        return this.#apply({ op: undefined, fault: undefined, resume: process, cost: 0 });
      });
    });
  }

  #resume(process: Process): void {
    process.paused = false;
    const { held } = process;
    process.held = undefined;
    if (held) this.#time.run(process, held);
  }

  /** The connection of a statement, or of a call, breaks. */
  async #cut(op: Op): Promise<void> {
    if (op.session) op.session.broken = true;
    if (!this.#replica.isSettled) await this.#hangUp();
    const error =
      op.kind === "sql" ? cutOff() : Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
    await this.#quiet();
    this.#time.run(op.process ?? outside, () => op.fail(error));
  }

  /** What broken connections leave open is undone. */
  async #hangUp(): Promise<void> {
    for (const { process } of this.#up.values()) {
      for (const session of process.sessions) if (session.broken) await this.#end(session);
    }
  }

  async #end(session: Session): Promise<void> {
    if (!this.#replica.isOpen(session.name) || this.#blocked.has(session.name)) return;
    await this.#quiet();
    await this.#wake(await this.#replica.step({ do: "end", session: session.name }));
  }

  /** Before somebody else runs, or the real database: until what runs has come to rest. */
  async #quiet(): Promise<void> {
    if (this.#time.running) await this.#time.rest();
  }

  async #crash(process: Process): Promise<void> {
    process.alive = false;
    this.#up.delete(process.name);
    for (const op of this.#pending.filter((one) => one.process === process)) this.#remove(op);
    for (const op of this.#slow) if (op.process === process) this.#slow.delete(op);
    for (const session of process.sessions) await this.#end(session);
    this.#time.setTimer(outside, restartMs, () => this.#next.push(() => this.#boot(process.name)));
    for (const tell of this.#waiters.get(process) ?? [])
      this.#tell(() => tell(new Down(`${process.name} died`)));
  }

  #boot(name: string): void {
    const start = (this.#starts.get(name) ?? 0) + 1;
    this.#starts.set(name, start);
    const process = new ProcessOf(name, start, {
      submit: (op) => this.#submit(op),
      abandon: (session) => this.#abandon(session),
    });
    this.#time.run(process, () => {
      this.#up.set(name, { process, app: this.#workload.boot(process, this.#scene) });
    });
  }

  #enter<T>(process: Process, fn: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(process) ?? new Set();
      this.#waiters.set(process, waiters);
      waiters.add(reject);
      const settle = (tell: () => void): void => {
        waiters.delete(reject);
        this.#tell(tell);
      };
      const begin = (): void => {
        fn().then(
          (value) => settle(() => resolve(value)),
          (error: Error) => settle(() => reject(error)),
        );
      };
      this.#next.push(() => {
        if (process.paused) holdBack(process, begin);
        else if (process.alive) this.#time.run(process, begin);
      });
    });
  }

  /** Tells the world outside, whose code must not run as a part of the process that told it. */
  #tell(tell: () => void): void {
    this.#next.push(() => this.#time.run(outside, tell));
  }

  #submit(op: Op): void {
    this.#pending.push(op);
    this.#arrived.set(op, this.#steps.length);
  }

  #abandon(session: Session): void {
    const unsent = this.#pending.filter((op) => op.session === session);
    for (const op of unsent) this.#remove(op);
    const blocked = this.#blocked.get(session.name);
    // The database goes on waiting, for nobody.
    if (blocked) this.#blocked.set(session.name, { op: blocked.op, answer: "lost" });
    for (const op of [...unsent, ...(blocked ? [blocked.op] : [])]) op.fail(cutOff());
  }

  #remove(op: Op): void {
    this.#pending.splice(this.#pending.indexOf(op), 1);
    this.#arrived.delete(op);
  }

  #follow(name: string, act: () => Promise<void>): void {
    this.#acting++;
    act().then(
      () => {
        this.#acting--;
        this.#lastEvent = this.#time.now;
      },
      (error: Error) => {
        this.#acting--;
        this.#violations.push({ invariant: "E", what: `${name}: ${error.stack ?? error.message}` });
      },
    );
  }

  #step(option: Option, reply: Step["reply"]): Step {
    const inTransaction = this.#isOpen(option.op?.session);
    return { atMs: this.#time.elapsed, option, reply, answer: undefined, inTransaction };
  }

  #played(): Played {
    const { deliveries, started, providers, said } = this.#scene;
    return {
      points: this.#points,
      steps: this.#steps,
      violations: this.#violations,
      end: {
        rows: this.#replica.rows(),
        deliveries,
        started,
        providers,
        said,
        faults: this.#faults,
        recoveryMs: (this.#settledAt ?? this.#time.now) - this.#lastEvent,
      },
    };
  }
}

/** Comes to a stopped process when it goes on. */
function holdBack(process: Process, news: () => void): void {
  const { held } = process;
  process.held = () => {
    held?.();
    news();
  };
}

/** A worker looks for due work. */
function isPoll(op: Op): boolean {
  return typeof op.what !== "string" && verbOf(op.what)?.startsWith("claim_due") === true;
}

function isCommit(op: Op): boolean {
  return typeof op.what !== "string" && /^commit/i.test(op.what.text);
}
