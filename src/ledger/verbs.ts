import { OncewardError, type ErrorCode } from "../errors.ts";
import { kept, lost } from "../database/failure.ts";
import type { Queryable } from "../database/database.ts";
import { currentDryRun } from "../database/dry-run.ts";
import {
  causeOf,
  checkLanes,
  claimColumns,
  interval,
  lease,
  limitsText,
  storedForm,
  type Argument,
} from "./argument.ts";
import {
  checkClaim,
  checkDate,
  checkFailure,
  checkIdentity,
  checkInteger,
  checkName,
  checkStep,
  checkStorable,
  checkTask,
  checkValue,
} from "./check.ts";
import type { DueOptions, LedgerStats } from "./lane.ts";
import type { ListedTask, ListFilter } from "./listed.ts";
import type { MachineState, Move, Moved } from "./move.ts";
import type { Newer } from "./newer.ts";
import type { PruneOptions } from "./prune.ts";
import { quoteIdentifier, textLiteral } from "./schema.ts";
import type { ToldSignal } from "./signal.ts";
import { statementOf } from "./statement.ts";
import {
  claimedTask,
  type Claim,
  type Claimed,
  type ClaimedDue,
  type Completed,
  type Completion,
  type NewTask,
  type Recorded,
  type Retry,
  type StepToSave,
  type TaskIdentity,
} from "./task.ts";

/**
 * The SQL verbs, one method each, over anything that can run a statement: the pool, or an open
 * transaction of any library. All the logic is in sql/*.sql; nothing here decides anything.
 */
export class Verbs {
  readonly #queryable: Queryable;
  readonly #schema: string;
  readonly #lockWaitMs: number | undefined;

  constructor(queryable: Queryable, schema: string, lockWaitMs?: number) {
    this.#queryable = queryable;
    this.#schema = schema;
    this.#lockWaitMs = lockWaitMs;
  }

  /** The same verbs inside an open transaction. */
  within(transaction: Queryable): Verbs {
    return new Verbs(transaction, this.#schema);
  }

  /** The same verbs, outside of transactions: what would wait longer for a lock fails with 55P03, and changes nothing. */
  hurried(lockWaitMs: number): Verbs {
    return new Verbs(this.#queryable, this.#schema, lockWaitMs);
  }

  async record(tasks: readonly NewTask[], claim?: Holder): Promise<Recorded[]> {
    return recordedOf(await this.call("record_many", recordColumns(tasks, claim)));
  }

  /** Both in one statement and one commit; see sql/004_finish.sql for which tasks. */
  async completeAndRecord(
    completions: readonly Completion[],
    tasks: readonly NewTask[],
    claim?: Holder,
  ): Promise<{ completed: Completed[]; recorded: Recorded[] }> {
    const { completed, recorded } = await this.call<{ completed: Completed[]; recorded: RecordAnswer[] }>(
      "complete_and_record_many",
      [...completionColumns(completions), ...recordColumns(tasks, claim)],
    );
    return { completed, recorded: recordedOf(recorded) };
  }

  async claim(
    task: TaskIdentity,
    options: { leaseMs: number; worker: string; early?: boolean | undefined },
  ): Promise<Claimed> {
    checkIdentity(task.scope, task.key);
    const { leaseMs, worker, early = false } = options;
    const answer = await this.call<Claimed>("claim", [
      task.scope,
      task.key,
      lease(leaseMs),
      worker,
      String(early),
    ]);
    return answer.outcome === "claimed" ? { ...answer, task: claimedTask(answer.task) } : answer;
  }

  async claimDue(lanes: readonly string[], options: DueOptions): Promise<ClaimedDue> {
    const { max, leaseMs, worker, after, limits } = options;
    checkInteger("max", max, 1);
    checkLanes(lanes);
    const args = [lanes, String(max), lease(leaseMs), worker, after, limits ? limitsText(limits) : null];
    const rows = await this.#rows("claim_due_rows", args, claimedColumns);
    const last = rows.pop() as { after: string | null; next_in_ms: number | null };
    return { tasks: rows.map(claimedTask), after: last.after, nextInMs: last.next_in_ms };
  }

  async renew(claims: readonly Claim[], leaseMs: number): Promise<Array<"renewed" | "lost">> {
    return this.call("renew_many", [...claimColumns(claims), lease(leaseMs)]);
  }

  async complete(completions: readonly Completion[]): Promise<Completed[]> {
    return this.call("complete_many", completionColumns(completions));
  }

  /** The same as the last word of a transaction: rejects, now or at the commit, where the claim is lost. */
  completeLast(claim: Completion): Promise<void> {
    checkClaim(claim);
    const { scope, key, attempt, result } = claim;
    return this.#last("complete", [scope, key, String(attempt), result], "done");
  }

  /** Inside a transaction, as its last word for several: rejects where one of the claims is lost. */
  async completeAll(claims: readonly Completion[]): Promise<void> {
    const answers = await this.complete(claims);
    if (answers.includes("lost")) throw lost();
    if (answers.includes("kept")) throw kept();
  }

  async fail(
    claims: readonly (Claim & { reason: string; retry: Retry })[],
  ): Promise<Array<"waiting" | "dead" | "unknown" | "done" | "lost">> {
    for (const claim of claims) checkFailure(claim);
    return this.call("fail_many", [
      ...claimColumns(claims),
      // What Postgres cannot keep must not keep a failure from being told.
      claims.map((claim) => String(claim.reason).toWellFormed().replaceAll("\0", "\uFFFD")),
      claims.map(({ retry }) => {
        if (retry === "backoff") return null;
        return typeof retry === "string" ? retry : interval("afterMs", retry.afterMs);
      }),
    ]);
  }

  /** Gives a claim back without using up a try: to sleep, to wait for a signal, or because the worker stops. */
  async defer(
    claim: Claim,
    until: { delayMs?: number | "forever"; at?: Date; signal?: string } = {},
  ): Promise<"waiting" | "lost"> {
    const { delayMs = 0, at, signal } = until;
    checkClaim(claim);
    checkDate("at", at);
    checkName("A signal's name", signal);
    const delay = delayMs === "forever" ? "infinity" : interval("delayMs", delayMs);
    return this.call("defer", [
      claim.scope,
      claim.key,
      String(claim.attempt),
      delay,
      at?.toISOString(),
      signal,
    ]);
  }

  async cancel(
    task: TaskIdentity,
    options: { reason?: string; actor?: string } = {},
  ): Promise<{ outcome: string }> {
    checkIdentity(task.scope, task.key);
    // '' is no person: the audit is for what people do.
    return this.call("cancel", [task.scope, task.key, options.reason ?? "cancelled", options.actor ?? ""]);
  }

  async saveSteps(steps: readonly StepToSave[]): Promise<Array<"saved" | "kept" | "lost">> {
    for (const step of steps) checkStep(step);
    return this.call("step_save_many", [
      ...claimColumns(steps),
      steps.map((step) => step.name),
      steps.map((step) => step.state),
      steps.map((step) => step.value ?? null),
    ]);
  }

  saveStepLast(step: StepToSave): Promise<void> {
    checkStep(step);
    const { scope, key, attempt, name, state, value } = step;
    return this.#last("step_save", [scope, key, String(attempt), name, state, value], "saved");
  }

  async resolveStep(
    task: TaskIdentity,
    step: { name: string; decision: "done" | "not done"; value?: string; actor?: string; reason?: string },
  ): Promise<{ outcome: "resolved" | "missing" }> {
    checkIdentity(task.scope, task.key);
    checkName("A step's name", step.name);
    checkValue("A step's value", step.value);
    if (!["done", "not done"].includes(step.decision)) {
      throw new OncewardError("value_invalid", 'A decision is "done" or "not done".');
    }
    return this.call("step_resolve", [
      task.scope,
      task.key,
      step.name,
      step.decision,
      step.value,
      step.actor ?? "",
      step.reason,
    ]);
  }

  async signal(
    task: TaskIdentity,
    signal: { name: string; value?: string; fingerprint?: string; actor?: string },
  ): Promise<
    { outcome: "sent" | "duplicate" | "late" | "missing" } | { outcome: "conflict"; expected: string }
  > {
    const { name, value, fingerprint, actor } = signal;
    checkIdentity(task.scope, task.key);
    checkName("A signal's name", name ?? "");
    checkValue("A signal's value", value);
    return this.call("signal", [task.scope, task.key, name, value, fingerprint, actor]);
  }

  async signals(task: TaskIdentity): Promise<Record<string, ToldSignal>> {
    checkIdentity(task.scope, task.key);
    return this.call("signals", [task.scope, task.key]);
  }

  /** True for whoever takes this effect key first; false ever after. */
  async once(
    key: string,
    options: { scope?: string; cause?: TaskIdentity | undefined } = {},
  ): Promise<boolean> {
    const { scope = "effect", cause } = options;
    checkIdentity(scope, key);
    return this.call("once", [key, scope, causeOf(cause)]);
  }

  /** Whether a state of an object may be applied; called in the transaction that applies it. */
  async newer(
    state: Newer,
  ): Promise<{ verdict: "apply" | "stale" | "tie"; revision: number; cause: string | null }> {
    const { scope, key, version, final = false, revision, cause } = state;
    checkIdentity(scope, key);
    checkInteger("revision", revision);
    const since = revision === undefined ? null : String(revision);
    return this.call("newer", [scope, key, version, String(final), since, causeOf(cause)]);
  }

  async move(move: Move): Promise<Moved> {
    const { machine, subject, from, to, initial, version, cause, timers, timer, restart = false } = move;
    checkInteger("version", version);
    const expected = version === undefined ? null : String(version);
    const delayed = timers?.map(({ move, after, delayMs }) => ({
      move,
      after,
      delay: interval("delayMs", delayMs),
    }));
    return this.call("move", [
      machine,
      subject,
      move.move,
      from,
      to,
      initial,
      expected,
      causeOf(cause),
      delayed && JSON.stringify(delayed),
      timer,
      String(restart),
    ]);
  }

  /** Raises in the database: nothing of this transaction can be committed any more. */
  abort(reason: string): Promise<never> {
    return this.call("abort", [reason]);
  }

  machineState(machine: string, subject: string): Promise<MachineState | null> {
    return this.call("machine_state", [machine, subject]);
  }

  async replay(
    tasks: readonly TaskIdentity[],
    options: { again?: boolean; actor?: string; reason?: string } = {},
  ): Promise<Array<{ outcome: "replayed" | "replayed again" | "done" | "running" | "pruned" | "missing" }>> {
    const { again = false, actor, reason } = options;
    for (const task of tasks) checkIdentity(task.scope, task.key);
    return this.call("replay_many", [
      tasks.map((task) => task.scope),
      tasks.map((task) => task.key),
      String(again),
      actor ?? "",
      reason,
    ]);
  }

  /** Forgets what is old, at most `max` rows in one call; `after` says where the next call goes on, null that all was seen. */
  async prune(options: PruneOptions): Promise<{ pruned: number; after: string | null }> {
    const { what, olderThanMs, lane, states, exceptLanes, after, max = 1000, actor, reason } = options;
    const { chosen = false, override = false, dryRun = false } = options;
    checkInteger("max", max, 1);
    checkLanes([...(lane === undefined ? [] : [lane]), ...(exceptLanes ?? [])]);
    const answer = await this.call<{ pruned: number; after: string | null } | { code: ErrorCode }>("prune", [
      what,
      interval("olderThanMs", olderThanMs),
      lane,
      states,
      exceptLanes,
      String(chosen),
      after,
      String(max),
      String(override),
      String(dryRun),
      actor,
      reason,
    ]);
    if ("code" in answer) {
      throw new OncewardError(
        answer.code,
        "Keys younger than 35 days are needed to recognise what a sender still repeats (Stripe: 30 days). " +
          "Keep them longer, or say `override: true` if you know that nothing is sent again; two hours is the least.",
      );
    }
    return answer;
  }

  /** All that the ledger knows of one task but its payload; null where it knows none. */
  async look(task: TaskIdentity): Promise<Record<string, unknown> | null> {
    checkIdentity(task.scope, task.key);
    return this.call("look", [task.scope, task.key]);
  }

  async payload(task: TaskIdentity): Promise<string | Uint8Array | null> {
    checkIdentity(task.scope, task.key);
    const answer = await this.call<{ body?: string; bytes?: string } | null>("payload", [
      task.scope,
      task.key,
    ]);
    if (answer === null) return null;
    return answer.body ?? Buffer.from(answer.bytes ?? "", "base64");
  }

  /** Tasks by what one knows of them, the newest first. */
  list(filter: ListFilter = {}): Promise<ListedTask[]> {
    const { lane, state, type, contains, reason, since, until, before, max = 100 } = filter;
    return this.call("list", [
      lane,
      state,
      type,
      contains,
      reason,
      since?.toISOString(),
      until?.toISOString(),
      before,
      String(max),
    ]);
  }

  stats(): Promise<LedgerStats> {
    return this.call("stats", []);
  }

  /** Tells the workers that listen to look for due work of these lanes now. */
  async wake(lanes: readonly string[]): Promise<number> {
    checkLanes(lanes);
    return this.call("wake", [lanes]);
  }

  async hello(worker: string, lanes: readonly string[]): Promise<"hello"> {
    checkName("A worker's name", worker);
    checkLanes(lanes);
    return this.call("hello", [worker, lanes]);
  }

  goodbye(worker: string): Promise<"goodbye"> {
    return this.call("goodbye", [worker]);
  }

  /** Any verb by its name, for folders whose verbs nobody else calls. */
  async call<Answer>(verb: string, args: readonly Argument[]): Promise<Answer> {
    const [row] = await this.#rows(verb, args);
    const answer = row?.["answer"] as Answer;
    currentDryRun()?.hear({ verb, args, answer });
    return answer;
  }

  /** A verb after which a transaction is committed if it answers as wanted, and undone if not. */
  async #last(verb: string, args: readonly (string | undefined)[], wanted: string): Promise<void> {
    const { last } = this.#queryable;
    if (!last) {
      const answer = await this.call(verb, args);
      if (answer !== wanted) throw answer === "kept" ? kept() : lost();
      return;
    }
    const schema = quoteIdentifier(this.#schema);
    const texts = args.map((arg) => {
      checkStorable(`An argument of ${verb}`, arg);
      return arg === undefined ? "null" : textLiteral(arg);
    });
    last(`call ${schema}.${verb}_last(${texts.join(", ")})`);
  }

  async #rows(
    verb: string,
    args: readonly Argument[],
    columns?: readonly string[],
  ): Promise<Record<string, unknown>[]> {
    const { text, params, read } = statementOf(this.#queryable, {
      schema: this.#schema,
      verb,
      args,
      columns,
      lockWaitMs: this.#lockWaitMs,
    });
    const { rows } = await this.#queryable.query(text, params);
    return read(rows);
  }
}

/** Who claims what it records, and for how long. */
interface Holder {
  readonly leaseMs: number;
  readonly worker: string;
}

type RecordAnswer = Recorded | { readonly outcome: "refused"; readonly code: ErrorCode };

function recordColumns(tasks: readonly NewTask[], claim: Holder | undefined): Argument[] {
  const scopes: string[] = [];
  const keys: string[] = [];
  const bodies: (string | Uint8Array | null)[] = [];
  const types: (string | null)[] = [];
  const fingerprints: (string | null)[] = [];
  const rare: (string | null)[] = [];
  for (const task of tasks) {
    checkTask(task);
    const { body, options } = storedForm(task);
    scopes.push(task.scope);
    keys.push(task.key);
    bodies.push(body);
    types.push(task.type ?? null);
    fingerprints.push(task.fingerprint ?? null);
    rare.push(options);
  }
  const holder = claim ? [lease(claim.leaseMs), claim.worker] : [null, null];
  return [scopes, keys, bodies, types, fingerprints, orNull(rare), ...holder];
}

function recordedOf(answers: readonly RecordAnswer[]): Recorded[] {
  return answers.map((answer) => {
    if (answer.outcome === "refused")
      throw new OncewardError(answer.code, `The ledger refused it: ${answer.code}.`);
    return answer.outcome === "claimed" && answer.task
      ? { ...answer, task: claimedTask(answer.task) }
      : answer;
  });
}

function completionColumns(completions: readonly Completion[]): Argument[] {
  return [...claimColumns(completions), orNull(completions.map(({ result }) => result ?? null))];
}

/** Null in place of a column that holds nothing else. */
function orNull(column: (string | null)[]): (string | null)[] | null {
  return column.every(isNull) ? null : column;
}

function isNull(one: string | null): one is null {
  return one === null;
}

const claimed =
  "scope, key, type, attempt, generation, tries, max_tries, serial, claimed_at, body, bytes, steps, after, next_in_ms";

/** Of the type `claimed`, what a run needs. */
const claimedColumns = claimed.split(", ");
