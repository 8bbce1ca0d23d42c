/** The connections between the processes of a schedule and its database: statements, locks that they wait for, and breaks. */
import { type Answering, give, outside } from "./answer.ts";
import type { Action, Outcome } from "./place.ts";
import { cutOff, type Op, type Process, type Session } from "./process.ts";
import type { Replica } from "./replica.ts";
import type { Reply } from "./reply.ts";
import type { VirtualTime } from "./virtual-time.ts";

interface Blocked {
  readonly op: Op;
  readonly answer: Answering;
}

export class Connections {
  readonly #replica: Replica;
  readonly #time: VirtualTime;
  /** Those that are up. */
  readonly #processes: () => Iterable<Process>;
  /** By session, what waits for a lock. */
  readonly #blocked = new Map<string, Blocked>();

  constructor(replica: Replica, time: VirtualTime, processes: () => Iterable<Process>) {
    this.#replica = replica;
    this.#time = time;
    this.#processes = processes;
  }

  /** No transaction is open, and nobody waits for a lock. */
  get areIdle(): boolean {
    return this.#blocked.size === 0 && this.#replica.isSettled;
  }

  isOpen(session: Session | undefined): boolean {
    return session !== undefined && (session.begun !== undefined || this.#replica.isOpen(session.name));
  }

  /** Whether a worker that looks for work would find some: else it does not matter what goes wrong while it looks. */
  finds({ session, what }: Op): boolean | Promise<boolean> {
    if (!session || typeof what === "string") return false;
    this.#setClock();
    return this.#replica.changes({ do: "run", session: session.name, statement: what });
  }

  #setClock(): void {
    if (this.#replica.nowMs !== this.#time.now) this.#replica.setClock(this.#time.now);
  }

  /** Runs a statement; a promise where the database has to be asked. `told`: what came of it, before anybody else knows. */
  run(op: Op, answering: Answering, told: (reply: Outcome["reply"]) => void): void | Promise<void> {
    const { session, what } = op;
    if (!session || typeof what === "string") throw new Error("A statement without a session.");
    if (this.#beginOrEnd(op, session, what.text, answering)) return undefined;
    const action: Action = { do: "run", session: session.name, statement: what, begin: session.begun };
    session.begun = undefined;
    this.#setClock();
    const take = (outcome: Outcome): void | Promise<void> => {
      told(outcome.reply);
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
    give(this.#time, op, answering, () => op.succeed({ rows: [], rowCount: null, command }));
    return true;
  }

  /** Those who waited for a lock have been answered. */
  async #wake(outcome: Outcome): Promise<void> {
    for (const { session, reply } of outcome.woken) {
      const blocked = this.#blocked.get(session);
      if (!blocked) continue;
      this.#blocked.delete(session);
      const { op } = blocked;
      const gone = blocked.answer === "lost" || !op.process?.alive;
      await this.#time.quiet();
      if (!gone) this.#reply(op, op.process?.paused ? "waits" : "arrives", reply);
      // Nobody is at the other end: what it did is undone, unless it is committed.
      else if (this.#replica.isOpen(session))
        await this.#wake(await this.#replica.step({ do: "end", session }));
    }
  }

  #reply(op: Op, answering: Answering, reply: Reply): void {
    give(this.#time, op, answering, () => {
      if ("error" in reply)
        op.fail(Object.assign(new Error(reply.error.message), { code: reply.error.code }));
      else op.succeed({ ...reply, rows: JSON.parse(reply.rows) as unknown });
    });
  }

  /** The connection of a statement, or of a call, breaks. */
  async cut(op: Op): Promise<void> {
    if (op.session) op.session.broken = true;
    await this.hangUp();
    const error =
      op.kind === "sql" ? cutOff() : Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
    await this.#time.quiet();
    this.#time.run(op.process ?? outside, () => op.fail(error));
  }

  /** What broken connections leave open is undone. */
  async hangUp(): Promise<void> {
    if (this.#replica.isSettled) return;
    for (const process of this.#processes()) {
      for (const session of process.sessions) if (session.broken) await this.end(session);
    }
  }

  /** Nobody is at the other end any more. */
  async end(session: Session): Promise<void> {
    if (!this.#replica.isOpen(session.name) || this.#blocked.has(session.name)) return;
    await this.#time.quiet();
    await this.#wake(await this.#replica.step({ do: "end", session: session.name }));
  }

  /** What waits for a lock on this connection; the database goes on waiting, for nobody. */
  abandon(session: Session): Op[] {
    const blocked = this.#blocked.get(session.name);
    if (!blocked) return [];
    this.#blocked.set(session.name, { op: blocked.op, answer: "lost" });
    return [blocked.op];
  }
}
