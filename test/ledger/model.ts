/**
 * The ledger in a page of plain TypeScript: what a task may go through, without a database. The real one is
 * compared with it, command by command. Times are ms of a clock that stands still between the commands.
 *
 * Where the real one may decide (which of several due tasks comes first, whose turn it is in a group), the model
 * takes over what was decided, after it has looked whether that was allowed.
 */
import type { Retry, StepState, TaskState } from "../../src/ledger/task.ts";

export const leaseMs = 60_000;

export interface ModelTask {
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string;
  readonly priority: number;
  readonly maxTries: number;
  /** The group that it runs one after another with, or at most `slots` at once. */
  readonly serial?: string | undefined;
  readonly slots?: number | undefined;
  state: TaskState;
  attempt: number;
  tries: number;
  generation: number;
  /** When it may next be claimed. While a task of a group waits its due time is the ledger's affair. */
  due: number | null;
  steps: Map<string, StepState>;
  result: string | null;
}

export type NewModelTask = Pick<
  ModelTask,
  "scope" | "key" | "fingerprint" | "priority" | "maxTries" | "serial" | "slots"
>;

const parked = new Set<TaskState>(["dead", "ignored", "cancelled", "unknown"]);

export class Model {
  readonly tasks = new Map<string, ModelTask>();
  readonly effects = new Set<string>();
  now = 0;

  find({ scope, key }: { scope: string; key: string }): ModelTask | undefined {
    return this.tasks.get(`${scope} ${key}`);
  }

  isDue(task: ModelTask): boolean {
    return task.due !== null && task.due <= this.now;
  }

  /** Holds a lease that has not ended. */
  isLive(task: ModelTask): boolean {
    return task.state === "running" && !this.isDue(task);
  }

  record(task: NewModelTask): string {
    const known = this.find(task);
    if (known) return known.fingerprint === task.fingerprint ? "duplicate" : "conflict";
    this.tasks.set(`${task.scope} ${task.key}`, {
      ...task,
      state: "waiting",
      attempt: 0,
      tries: 0,
      generation: 1,
      due: this.now,
      steps: new Map(),
      result: null,
    });
    return "recorded";
  }

  /** Takes a task that is due: it runs, or it is dead since its tries are used up. */
  take(task: ModelTask): "claimed" | "dead" {
    task.attempt++;
    if (task.tries >= task.maxTries) {
      this.finish(task, "dead");
      return "dead";
    }
    task.tries++;
    task.state = "running";
    task.due = this.now + leaseMs;
    return "claimed";
  }

  finish(task: ModelTask, state: TaskState): void {
    task.state = state;
    task.due = null;
  }

  private held({
    scope,
    key,
    attempt,
  }: {
    scope: string;
    key: string;
    attempt: number;
  }): ModelTask | undefined {
    const task = this.find({ scope, key });
    return task?.state === "running" && task.attempt === attempt ? task : undefined;
  }

  renew(claim: { scope: string; key: string; attempt: number }): "renewed" | "lost" {
    const task = this.held(claim);
    if (task) task.due = this.now + leaseMs;
    return task ? "renewed" : "lost";
  }

  /** This very attempt has completed it. */
  isDoneBy(claim: { scope: string; key: string; attempt: number }): boolean {
    const task = this.find(claim);
    return task?.state === "done" && task.attempt === claim.attempt;
  }

  complete(claim: { scope: string; key: string; attempt: number }, result: string): "done" | "kept" | "lost" {
    const task = this.held(claim);
    if (!task) return this.isDoneBy(claim) ? "kept" : "lost";
    this.finish(task, "done");
    task.result = result;
    return "done";
  }

  /** The pause of a backoff is taken from the real ledger, if it is within bounds. */
  fail(
    claim: { scope: string; key: string; attempt: number },
    retry: Retry,
    due: number | null,
  ): TaskState | "lost" {
    const task = this.held(claim);
    if (!task) return this.isDoneBy(claim) ? "done" : "lost";
    if (retry === "unknown") this.finish(task, "unknown");
    else if (retry === "never" || task.tries >= task.maxTries) this.finish(task, "dead");
    else {
      task.state = "waiting";
      const longest = Math.min(2_000 * 2 ** (task.tries - 1), 4 * 3_600_000);
      if (typeof retry === "object") task.due = this.now + retry.afterMs;
      else if (due !== null && due >= this.now + longest / 2 - 1 && due <= this.now + longest + 1)
        task.due = due;
      else
        throw new Error(
          `a backoff of ${due === null ? "none" : due - this.now} ms after ${task.tries} tries`,
        );
    }
    return task.state;
  }

  defer(claim: { scope: string; key: string; attempt: number }, delayMs: number): "waiting" | "lost" {
    const task = this.held(claim);
    if (!task) return "lost";
    task.state = "waiting";
    task.tries--;
    task.due = this.now + delayMs;
    return "waiting";
  }

  saveStep(
    claim: { scope: string; key: string; attempt: number },
    name: string,
    state: StepState,
  ): "saved" | "kept" | "lost" {
    const task = this.held(claim);
    if (!task) return "lost";
    if (task.steps.get(name) === "done") return "kept";
    task.steps.set(name, state);
    return "saved";
  }

  cancel(identity: { scope: string; key: string }): string {
    const task = this.find(identity);
    if (!task) return "missing";
    if (task.due === null) return task.state;
    task.attempt++;
    this.finish(task, "cancelled");
    return "cancelled";
  }

  replay(identity: { scope: string; key: string }, again: boolean): string {
    const task = this.find(identity);
    if (!task) return "missing";
    if (this.isLive(task)) return "running";
    if (task.state === "done" && !again) return "done";
    const wasDone = task.state === "done";
    if (wasDone) {
      task.generation++;
      task.steps = new Map();
      task.result = null;
    }
    task.state = "waiting";
    task.attempt++;
    task.tries = 0;
    task.due = this.now;
    return wasDone ? "replayed again" : "replayed";
  }

  once(key: string): boolean {
    if (this.effects.has(key)) return false;
    this.effects.add(key);
    return true;
  }

  /** What is true of every ledger at any time; says what is not. */
  broken(): string[] {
    const all = [...this.tasks.values()];
    const problems: string[] = [];
    const groups = new Map<string, ModelTask[]>();
    for (const task of all) {
      const { scope, key, state, tries, attempt, maxTries, due, serial } = task;
      if (tries > maxTries || tries > attempt)
        problems.push(`${key}: ${tries} tries of ${maxTries}, attempt ${attempt}`);
      if ((due === null) !== (state === "done" || parked.has(state)))
        problems.push(`${key}: ${state} and due ${due}`);
      if (serial !== undefined)
        groups.set(`${scope} ${serial}`, [...(groups.get(`${scope} ${serial}`) ?? []), task]);
    }
    for (const [name, tasks] of groups) {
      const live = tasks.filter((task) => this.isLive(task));
      if (live.length > (tasks[0]?.slots ?? 1))
        problems.push(`${name}: ${live.map((task) => task.key)} run at once`);
    }
    return problems;
  }
}
