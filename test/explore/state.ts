/** What the database holds: the rows of every table. Two states with the same rows are the same object. */
import type { Table } from "./live.ts";
import { type Row, type Rows, readRow } from "./rows.ts";

/** The rows of one table, as Postgres writes them. */
class Contents {
  readonly texts: readonly string[];
  readonly #table: Table;
  readonly #number: number;
  #rows: readonly Row[] | undefined;

  constructor(table: Table, texts: readonly string[], number: number) {
    this.#table = table;
    this.texts = texts;
    this.#number = number;
  }

  get rows(): readonly Row[] {
    this.#rows ??= this.texts.map((text) => readRow(this.#table.columns, text));
    return this.#rows;
  }

  /** The same for all contents that nothing tells apart at this time. */
  nameAt(clockMs: number): string {
    const { name, times } = this.#table;
    if (times.length === 0 || this.texts.length === 0) return String(this.#number);
    const now = clockMs * 1000;
    const columns = times.map((column) => {
      const all = this.rows.map((row) => microseconds(row[column] ?? null));
      return named(all, now, meanings[`${name}.${column}`]);
    });
    const rows = this.rows.map((row, i) => {
      const others = this.#table.columns.filter((column) => !times.includes(column));
      return JSON.stringify([...others.map((column) => row[column]), ...columns.map((column) => column[i])]);
    });
    return rows.toSorted().join();
  }
}

/**
 * What a time in the past means: `order`, only which one came first; `passed`, the same, and that it is not now; or
 * `nothing`, since it is there to be told. Of all others it counts how long ago they were. Of times to come it
 * always counts in how long they are.
 */
type Meaning = "order" | "passed" | "nothing";

const meanings: Readonly<Record<string, Meaning | undefined>> = {
  "onceward.task.created_at": "order",
  "onceward.task.due_at": "order",
  "onceward.task.started_at": "nothing",
  "onceward.task.finished_at": "passed",
  "onceward.step.started_at": "order",
  "onceward.step.finished_at": "nothing",
  "onceward.effect.taken_at": "nothing",
  "onceward.delivery.last_at": "nothing",
  "onceward.log.logged_at": "nothing",
  "onceward.machine.since": "nothing",
  "onceward.move.moved_at": "nothing",
};

/** The verbs for which that is so: none of them asks how long ago something was. Others cannot be explored like this. */
export const ageless: ReadonlySet<string> = new Set([
  "record_many",
  "claim",
  "claim_many",
  "claim_due",
  "claim_due_rows",
  "renew_many",
  "complete",
  "complete_many",
  "complete_and_record_many",
  "complete_last",
  "fail_many",
  "defer",
  "step_save",
  "step_save_many",
  "step_save_last",
  "once",
  "once_many",
  "replay_many",
  "cancel",
  "delivered_again",
  // Whether an earlier timer is due in two seconds; and of a time that has passed, that it has.
  "move",
  "machine_state",
  "abort",
  // With olderThanMs: 0, which asks whether something has ended before now.
  "prune",
  "look",
]);

/** What they write tells no time to come, so that it does not matter how long ago a transaction did it. */
export const timeless: ReadonlySet<string> = new Set([
  "record_many",
  "complete",
  "complete_many",
  "complete_and_record_many",
  "complete_last",
  "step_save",
  "step_save_many",
  "step_save_last",
  "once",
  "delivered_again",
]);

/** Times as what counts of them now. */
function named(times: readonly (number | null)[], now: number, meaning: Meaning | undefined): unknown[] {
  const isPast = (time: number): boolean => time < now || (time === now && meaning !== "passed");
  const past = times.filter((time) => time !== null && isPast(time)).toSorted((a, b) => a! - b!);
  const ranks = [...new Set(past)];
  return times.map((time) => {
    if (time === null) return null;
    if (!isPast(time) || meaning === undefined) return time - now;
    return meaning === "nothing" ? "past" : `past ${ranks.indexOf(time)}`;
  });
}

/** `2026-01-01 00:00:00.001001+00`; milliseconds are not enough, by which tasks that were recorded together differ. */
function microseconds(time: string | null): number | null {
  if (time === null) return null;
  const [, seconds, fraction = ""] = /^(\S+ \S{8})(?:\.(\d+))?\+00$/.exec(time) ?? [];
  // Infinity stays what it is.
  if (seconds === undefined) return time === "infinity" ? Infinity : -Infinity;
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.padEnd(6, "0"));
}

export class State implements Rows {
  readonly contents: readonly Contents[];
  readonly #tables: readonly Table[];

  constructor(tables: readonly Table[], contents: readonly Contents[]) {
    this.#tables = tables;
    this.contents = contents;
  }

  of(table: string): readonly Row[] {
    return this.contents[this.#tables.findIndex(({ name }) => name === table)]?.rows ?? [];
  }

  /** The same for all states from which the same follows at this time. */
  nameAt(clockMs: number): string {
    return this.contents.map((contents) => contents.nameAt(clockMs)).join("\n");
  }
}

/** By table, undefined or null: as it was. */
export type Change = readonly (readonly string[] | null)[];

/** Knows each state once. */
export class States {
  readonly #tables: readonly Table[];
  readonly #contents: Map<string, Contents>[];
  readonly #states = new Map<string, State>();
  readonly #numbers = new Map<Contents, number>();

  constructor(tables: readonly Table[]) {
    this.#tables = tables;
    this.#contents = tables.map(() => new Map<string, Contents>());
  }

  /** No rows at all. */
  get empty(): State {
    return this.after(
      undefined,
      this.#tables.map(() => []),
    );
  }

  after(before: State | undefined, change: Change): State {
    const contents = this.#tables.map((_, i) => this.#contentsOf(i, change[i] ?? before!.contents[i]!.texts));
    const name = contents.map((one) => this.#numbers.get(one)).join();
    let state = this.#states.get(name);
    if (!state) this.#states.set(name, (state = new State(this.#tables, contents)));
    return state;
  }

  #contentsOf(table: number, texts: readonly string[]): Contents {
    const name = texts.join("\n");
    let contents = this.#contents[table]!.get(name);
    if (!contents) {
      contents = new Contents(this.#tables[table]!, texts, this.#numbers.size);
      this.#contents[table]!.set(name, contents);
      this.#numbers.set(contents, this.#numbers.size);
    }
    return contents;
  }
}

/** What has to be written where the rows of `from` are, to have those of `to`. */
export function difference(from: State | undefined, to: State): Change {
  return to.contents.map((contents, i) => (contents === from?.contents[i] ? null : contents.texts));
}
