/**
 * One schedule of a workload: at every point where something can happen, a choice says what does. The first
 * option of each point goes on with what ran last and lets nothing go wrong; every other one costs something.
 */
import { type Answering, give, outside } from "./answer.ts";
import { Connections } from "./connections.ts";
import { graceMs, longestRecoveryMs, pauseMs, slowMs } from "./durations.ts";
import { type Choose, faultsOf, isPoll, type Option, optionsAt } from "./option.ts";
import { Pending } from "./pending.ts";
import type { Played, Step } from "./played.ts";
import { cutOff, type Op, type Process, type Session } from "./process.ts";
import { Processes } from "./processes.ts";
import type { Replica } from "./replica.ts";
import { Unreachable } from "./route.ts";
import { type Fault, Scene, type Violation, type Workload } from "./scene.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** More steps than any schedule needs that comes to rest. */
const mostSteps = 400;

export class Schedule<App> {
  readonly #workload: Workload<App>;
  readonly #replica: Replica;
  readonly #time: VirtualTime;
  readonly #choose: Choose;
  readonly #scene: Scene<App>;
  readonly #processes: Processes<App>;
  readonly #connections: Connections;
  readonly #pending = new Pending();
  /** What follows from a step once the code that it set in motion has come to rest. */
  readonly #next: (() => void | Promise<void>)[] = [];
  readonly #points: number[][] = [];
  readonly #steps: Step[] = [];
  readonly #faults: Fault[] = [];
  readonly #violations: Violation[] = [];
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
    const submit = (op: Op): void => this.#pending.add(op, this.#steps.length);
    this.#processes = new Processes<App>({
      time,
      submit,
      abandon: (session) => this.#abandon(session),
      boot: (process) => workload.boot(process, this.#scene),
      next: (act) => this.#next.push(act),
    });
    this.#connections = new Connections(replica, time, () => this.#processes.all());
    this.#scene = new Scene<App>({
      submit,
      running: () => this.#time.running as Process,
      app: (name) => this.#processes.get(name),
      enter: (process, fn) => this.#processes.enter(process, fn),
      sleep: (ms) => new Promise((resolve) => this.#time.setTimer(outside, ms, resolve)),
    });
  }

  async play(): Promise<Played> {
    this.#time.reset();
    this.#replica.reset();
    for (const name of this.#workload.processes) {
      this.#processes.boot(name);
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
    for (const process of this.#processes.all()) process.alive = false;
    return this.#played();
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

  /** Lets one thing happen; false when nothing is left. */
  async #happen(): Promise<boolean> {
    await this.#rest();
    const ready = this.#pending.ready(this.#steps.length);
    // Asked of the database only where it matters; and waited for only where it is not known.
    const found = ready[0] && isPoll(ready[0]) ? this.#connections.finds(ready[0]) : true;
    const options = optionsAt({
      ready,
      finds: typeof found === "boolean" ? found : await found,
      resumable: this.#processes.resumable(),
      faultsOf: (op) => this.#faultsOf(op),
    });
    if (options.length === 0) return this.#pass();
    let pick = 0;
    if (options.length > 1) {
      pick = this.#choose(options, this.#points.length);
      this.#points.push(options.map((option) => option.cost));
    }
    const option = options[pick];
    if (!option) throw this.#unrepeatable(pick);
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

  /** Of a schedule that was noted when there was such an option. Where the database has not changed its mind, our code has. */
  #unrepeatable(pick: number): Error {
    const what = `Point ${this.#points.length} has no option ${pick}: the schedule cannot be repeated.`;
    return this.#replica.hasForgotten ? new Unreachable(what) : new Error(what);
  }

  #faultsOf(op: Op): Fault[] {
    const wanted = this.#workload.faults;
    return faultsOf(op, this.#connections.isOpen(op.session)).filter((fault) => {
      // The same as to crash after the step before, which could be chosen there.
      if (fault === "crash before" && this.#couldCrash === op.process) return false;
      return !wanted || wanted.includes(fault);
    });
  }

  /** Everything that needs no choice: news for the world outside, timers that are due, silent statements. */
  async #rest(): Promise<void> {
    for (;;) {
      if (this.#time.running) await this.#time.rest();
      const next = this.#next.shift();
      const silent = next ? undefined : this.#pending.silent();
      if (next || silent) {
        const doing = next ? next() : this.#performSilent(silent!);
        if (doing) await doing;
      } else if (!this.#time.fireDue()) {
        if (!this.#replica.isSettled) await this.#connections.hangUp();
        // Who waited for that goes on.
        if (!this.#time.running) break;
      }
    }
  }

  #performSilent(op: Op): void | Promise<void> {
    this.#pending.remove(op);
    return this.#perform(op, "arrives");
  }

  /** Nothing can happen now: time goes on. */
  #pass(): boolean {
    const { now } = this.#time;
    const isSettled = this.#acting === 0 && this.#slow.size === 0 && this.#isSettled();
    if (!isSettled) this.#settledAt = undefined;
    else this.#settledAt ??= now;
    // I5 is broken: what would come now takes long to play, and tells nothing more.
    const isHopeless = !isSettled && this.#acting === 0 && now - this.#lastEvent > longestRecoveryMs;
    if (isHopeless && this.#replica.isSettled) return false;
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
    if (!this.#connections.areIdle || this.#processes.all().some(({ paused }) => paused)) return false;
    const rows = this.#replica.rows();
    const { settled, hot } = this.#workload;
    return (
      settled?.(rows) ?? rows.of("onceward.task").every((task) => task["due_at"] === null || hot?.(task))
    );
  }

  /** A promise where the database has to be asked. */
  #apply(option: Option): void | Promise<void> {
    const { op, fault, resume } = option;
    if (resume) {
      this.#steps.push(this.#step(option));
      return this.#processes.resume(resume);
    }
    if (!op) throw new Error("An option without anything to do.");
    const { process } = op;
    if (fault !== "pause before") this.#pending.remove(op);
    if (!fault || !process) return this.#perform(op, "arrives", option);
    return this.#goWrong(option, op, process);
  }

  async #goWrong(option: Option, op: Op, process: Process): Promise<void> {
    switch (option.fault) {
      case undefined:
        break;
      case "crash before":
        this.#steps.push(this.#step(option));
        await this.#crash(process);
        break;
      case "crash after":
        await this.#perform(op, "lost", option);
        await this.#time.quiet();
        await this.#crash(process);
        break;
      case "answer lost":
        await this.#perform(op, "lost", option);
        await this.#time.quiet();
        await this.#connections.cut(op);
        break;
      case "cut off":
        this.#steps.push(this.#step(option));
        await this.#connections.cut(op);
        break;
      case "pause before":
        this.#steps.push(this.#step(option));
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

  /** A promise where the database has to be asked. */
  #perform(op: Op, answering: Answering, option?: Option): void | Promise<void> {
    if (op.kind !== "sql") {
      // People and networks take time, so that what they do one after the other has different times.
      if (op.kind === "act") this.#time.now++;
      const answer = this.#effect(op, option);
      give(this.#time, op, answering, () => op.succeed(answer));
      return undefined;
    }
    const step = option && this.#step(option);
    return this.#connections.run(op, answering, (reply) => {
      if (step) this.#steps.push({ ...step, reply });
    });
  }

  #effect(op: Op, option: Option | undefined): unknown {
    const answer = op.effect?.();
    if (option) this.#steps.push({ ...this.#step(option), answer });
    return answer;
  }

  #pause(process: Process): void {
    this.#processes.pause(process);
    this.#time.setTimer(outside, pauseMs, () => {
      this.#next.push(() => {
        // Unless it went on before.
        if (!process.paused || !process.alive) return undefined;
        return this.#apply({ op: undefined, fault: undefined, resume: process, cost: 0 });
      });
    });
  }

  async #crash(process: Process): Promise<void> {
    this.#processes.die(process);
    this.#pending.removeAll((op) => op.process === process);
    for (const op of this.#slow) if (op.process === process) this.#slow.delete(op);
    for (const session of process.sessions) await this.#connections.end(session);
    this.#processes.startAgain(process);
  }

  /** A process has destroyed a connection of its own: what waits for an answer on it will have none. */
  #abandon(session: Session): void {
    const unsent = this.#pending.removeAll((op) => op.session === session);
    for (const op of [...unsent, ...this.#connections.abandon(session)]) op.fail(cutOff());
  }

  #step(option: Option): Step {
    const inTransaction = this.#connections.isOpen(option.op?.session);
    return { atMs: this.#time.elapsed, option, reply: undefined, answer: undefined, inTransaction };
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
