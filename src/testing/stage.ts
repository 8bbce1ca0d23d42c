import type { Database } from "../database/database.ts";
import { messageOf, OncewardError } from "../errors.ts";
import { quoteIdentifier } from "../ledger/schema.ts";
import type { ClaimedTask } from "../ledger/task.ts";
import type { ProveOptions } from "./prove.ts";
import {
  areEqual,
  findTables,
  leavesOf,
  readEffects,
  readTables,
  type Row,
  type Snapshot,
} from "./snapshot.ts";

/** What a handler forgot to await gets this long to write, in ms. */
const afterwardsMs = 50;

/** An application on a database for tests: events are delivered to it, and it can be looked at and emptied. */
export class Stage<Tx> {
  readonly database: Database<Tx>;
  /** For people: the source, and the type of the event. */
  readonly name: string;
  readonly #options: ProveOptions<Tx>;
  readonly #tables: readonly string[];
  readonly #before: ReadonlyMap<string, readonly Row[]>;
  readonly #body: Uint8Array;
  #outsideBefore = 0;
  readonly #takenOver: ClaimedTask[] = [];

  private constructor(
    options: ProveOptions<Tx>,
    tables: readonly string[],
    before: ReadonlyMap<string, readonly Row[]>,
  ) {
    const { once, source, event } = options;
    this.database = once.database;
    this.#options = options;
    this.#tables = tables;
    this.#before = before;
    this.#body = bytesOf(event);
    this.name = `${source.name} ${typeOf(event)}`.trim();
  }

  static async open<Tx>(options: ProveOptions<Tx>): Promise<Stage<Tx>> {
    const { engine, database } = options.once;
    await engine.ready();
    const { unfinished, parked } = await engine.ledger.verbs.stats();
    const ledger = quoteIdentifier(engine.ledger.schema);
    const { rows } = await database.query(`select 1 as known from ${ledger}.task limit 1`);
    if (rows.length + unfinished.length + parked.length > 0) {
      throw new OncewardError(
        "config_invalid",
        "The ledger of this database is not empty. A proof empties tables: give it a database of its own.",
      );
    }
    const tables = options.tables ?? (await findTables(database, engine.ledger.schema));
    return new Stage(options, tables, await readTables(database, tables));
  }

  /** As before the first trial, and arranged. */
  async reset(): Promise<void> {
    await this.empty();
    await this.#options.arrange?.();
    this.#outsideBefore = this.#options.outside?.length ?? 0;
  }

  /** The ledger, and whatever was empty before the first trial, is empty again. */
  async empty(): Promise<void> {
    const { schema } = this.#options.once.engine.ledger;
    const ledger = (await findTables(this.database, "")).filter(
      (table) => table.startsWith(`${quoteOnDemand(schema)}.`) && !table.endsWith(".migration"),
    );
    const own = this.#tables.filter((table) => this.#before.get(table)?.length === 0);
    try {
      await this.database.query(`truncate ${[...ledger, ...own].join(", ")} restart identity`);
    } catch (error) {
      throw new OncewardError(
        "config_invalid",
        `The tables cannot be emptied between trials. ${useArrange}`,
        {
          cause: error,
        },
      );
    }
    for (const [table, rows] of await readTables(this.database, this.#tables)) {
      if (!areEqual(rows, this.#before.get(table) ?? [])) {
        throw new OncewardError(
          "config_invalid",
          `The handler changes ${table}, which had rows before. ${useArrange}`,
        );
      }
    }
  }

  /** The event comes, and whoever has to runs it. What the sender is told does not matter here. */
  async deliver(event?: unknown): Promise<void> {
    try {
      await this.#options.source.take(event === undefined ? this.#body : bytesOf(event));
      await this.#runDue();
    } catch {
      // It was made to fail, or failed by itself; which of them is seen in what it leaves.
    }
  }

  /** Whoever took over runs it, and the sender tries again until the event is done. */
  async redeliver(times: number): Promise<void> {
    await this.#run(this.#takenOver.splice(0));
    for (let i = 0; i < times; i++) {
      await this.#letTimePass();
      await this.deliver();
      if ((await this.unfinished()) === undefined) return;
    }
  }

  /** Somebody else claims what this process holds, since its lease is over. */
  async takeOver(): Promise<void> {
    await this.#letTimePass();
    this.#takenOver.push(...(await this.#claimDue()));
  }

  async replay(): Promise<void> {
    await this.deliver();
    const { verbs } = this.#options.once.engine.ledger;
    const done = await this.#tasks();
    await verbs.replay(
      done.filter(({ scope }) => !scope.includes("/#")),
      { again: true, actor: "a proof" },
    );
    await this.#runDue();
  }

  /** Why the event is not done; undefined where it is. */
  async unfinished(): Promise<string | undefined> {
    const tasks = await this.#tasks();
    if (tasks.length === 0) return "it was not recorded";
    const open = tasks.find(({ state }) => state !== "done");
    return open && `it is ${open.state}${open.reason ? `: ${open.reason}` : ""}`;
  }

  async look(): Promise<Snapshot> {
    await new Promise((resolve) => setTimeout(resolve, afterwardsMs));
    const { once, source, outside } = this.#options;
    const snapshot = await readTables(this.database, this.#tables);
    for (const [name, rows] of await readEffects(this.database, once.engine.ledger.schema, source.name)) {
      snapshot.set(name, rows);
    }
    if (outside) snapshot.set("outside", outside.slice(this.#outsideBefore).map(leavesOf));
    return snapshot;
  }

  /** So that what comes from a sequence differs from trial to trial, and is not compared. */
  async advanceSequences(): Promise<void> {
    await this.database.query(
      `select nextval(quote_ident(schemaname) || '.' || quote_ident(sequencename)) from pg_catalog.pg_sequences`,
    );
  }

  /** What waits for its backoff, and what a dead process holds, is due. */
  async #letTimePass(): Promise<void> {
    const { schema } = this.#options.once.engine.ledger;
    await this.database.query(
      `update ${quoteIdentifier(schema)}.task set due_at = ${quoteIdentifier(schema)}.now()
       where due_at is not null and (scope = $1::text or starts_with(scope, $1::text || '/'))`,
      [this.#options.source.name],
    );
  }

  async #runDue(): Promise<void> {
    for (let tasks = await this.#claimDue(); tasks.length > 0; tasks = await this.#claimDue())
      await this.#run(tasks);
  }

  async #claimDue(): Promise<readonly ClaimedTask[]> {
    const { leaseMs, worker, verbs } = this.#options.once.engine.ledger;
    return (await verbs.claimDue([this.#options.source.name], { max: 10, leaseMs, worker })).tasks;
  }

  async #run(tasks: readonly ClaimedTask[]): Promise<void> {
    const { engine } = this.#options.once;
    for (const task of tasks) {
      const lane = engine.laneOf(task.scope);
      if (lane) await engine.runHere(lane, task);
    }
  }

  async #tasks(): Promise<{ scope: string; key: string; state: string; reason: string | null }[]> {
    const { schema } = this.#options.once.engine.ledger;
    const { rows } = await this.database.query(
      `select scope, key, state, reason from ${quoteIdentifier(schema)}.task
       where scope = $1::text or starts_with(scope, $1::text || '/')`,
      [this.#options.source.name],
    );
    return rows as { scope: string; key: string; state: string; reason: string | null }[];
  }
}

const useArrange = "Begin a proof with empty tables, and fill those that the handler needs in `arrange`.";

/** As quote_ident writes it. */
function quoteOnDemand(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdentifier(name);
}

function bytesOf(event: unknown): Uint8Array {
  if (event instanceof Uint8Array) return event;
  const text = typeof event === "string" ? event : JSON.stringify(event);
  if (text === undefined) throw new OncewardError("value_invalid", "The event is an object, text or bytes.");
  return Buffer.from(text);
}

function typeOf(event: unknown): string {
  try {
    const parsed = (
      event instanceof Uint8Array || typeof event === "string"
        ? JSON.parse(String(Buffer.from(event)))
        : event
    ) as { type?: unknown } | null;
    return typeof parsed?.type === "string" ? parsed.type : "";
  } catch (error) {
    throw new OncewardError("value_invalid", `The event is no JSON: ${messageOf(error)}`);
  }
}
