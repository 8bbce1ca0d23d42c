/** The real Postgres behind the explorer: named sessions, a clock in its hands, and its whole state as text. */
import { setTimeout as realTimeout } from "node:timers";
import pg from "pg";
import { pgDatabase } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Backends, isCircle } from "./backends.ts";
import { clock, functions } from "./functions.ts";
import { inlined, isEnding, verbOf } from "./params.ts";
import { commandOf, errorOf, isRandom, type Reply, replyOf, seededText, selected, sent } from "./reply.ts";
import type { Change } from "./state.ts";

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface TimedStatement {
  readonly statement: Statement;
  readonly clockMs: number;
}

export interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  /** Those of them that are times. */
  readonly times: readonly string[];
}

/** What changes no behaviour: which migrations there are, which workers said hello, and the clock itself. */
const leftOut = new Set(["migration", "worker"]);

/** How long a statement may be silent before we look whether it waits for a lock. */
const silenceMs = 2;

/** Says in the transaction of a statement whether it wrote anything. */
const probe = "select pg_current_xact_id_if_assigned() is not null as wrote";

/** Dead rows slow every scan down; so many statements make some. */
const statementsAVacuum = 2_000;

export class LiveDatabase {
  readonly tables: readonly Table[];
  readonly #url: string;
  readonly #monitor: pg.Client;
  readonly #clients = new Map<string, pg.Client>();
  readonly #backends: Backends;
  /** Sessions that may have a transaction open. */
  readonly #open = new Set<string>();
  readonly #waiting = new Map<string, Promise<Reply>>();
  #nextVacuum = statementsAVacuum;
  statements = 0;

  private constructor(url: string, monitor: pg.Client, tables: readonly Table[]) {
    this.#url = url;
    this.#monitor = monitor;
    this.#backends = new Backends(monitor);
    this.tables = tables;
  }

  /** `schema` makes the tables of the application and of the naive ways, in schemas of their own. */
  static async open(url: string, schema: string): Promise<LiveDatabase> {
    const database = pgDatabase(url, { max: 1 });
    await migrate(database);
    await database.close();
    const monitor = await connect(url);
    await monitor.query(schema);
    await monitor.query(clock);
    const { rows } = await monitor.query<Table & { table: string }>(`
      select format('%I.%I', n.nspname, c.relname) as name, c.relname as table,
        array_agg(a.attname::text order by a.attnum) as columns,
        coalesce(array_agg(a.attname::text) filter (where a.atttypid = 'timestamptz'::regtype), '{}') as times
      from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
      where c.relkind = 'r' and n.nspname in ('onceward', 'app') and a.attnum > 0 and not a.attisdropped
      group by 1, 2 order by 1`);
    const tables = rows
      .filter((row) => !leftOut.has(row.table))
      .map(({ name, columns, times }) => ({ name, columns, times }));
    await monitor.query(functions(tables));
    return new LiveDatabase(url, monitor, tables);
  }

  async close(): Promise<void> {
    this.#backends.letAllGo();
    for (const client of [this.#monitor, ...this.#clients.values()]) await client.end();
  }

  async dump(): Promise<Change> {
    const { rows } = await this.#monitor.query<{ state: string }>({
      name: "dump",
      text: "select explore.dump() as state",
    });
    return JSON.parse(rows[0]!.state) as Change;
  }

  /**
   * Runs a verb while nobody else has a transaction open: what comes before it, itself and the look at what came
   * of it in one round trip. `from`: what to write first, to start from the right state.
   */
  async runAlone(
    statement: Statement,
    clockMs: number,
    from?: Change,
  ): Promise<{ reply: Reply; change: Change }> {
    this.statements++;
    if (from !== undefined) await this.#prepareRestore();
    const { rows } = await this.#monitor.query<{
      answer: string | null;
      code: string | null;
      message: string | null;
      state: string;
    }>({
      name: "alone",
      text: "select * from explore.run_alone($1, $2, $3)",
      values: [from && JSON.stringify(from), clockMs, inlined(statement)],
    });
    const { answer, code, message, state } = rows[0]!;
    const reply: Reply = code === null ? selected(answer) : { error: { message: message ?? "", code } };
    return { reply, change: JSON.parse(state) as Change };
  }

  /**
   * Runs the statements of a transaction that nobody else sees, all of them in one round trip: kept, with the state
   * that it leaves; or undone, with the answer to the last one. `from` as in runAlone.
   */
  async runTransaction(
    statements: readonly TimedStatement[],
    ending: "kept" | "undone",
    from?: Change,
  ): Promise<{ reply: Reply; change: Change | undefined }> {
    this.statements++;
    if (from !== undefined) await this.#prepareRestore();
    const { rows } = await this.#monitor.query<{
      answer: string | null;
      affected: number;
      code: string | null;
      message: string | null;
      state: string | null;
    }>({
      name: "transaction",
      text: "select * from explore.run_transaction($1, $2, $3, $4)",
      values: [
        from && JSON.stringify(from),
        statements.map(({ statement }) => inlined(statement)),
        statements.map(({ clockMs }) => clockMs),
        ending === "kept",
      ],
    });
    const { answer, affected, code, message, state } = rows[0]!;
    const command = commandOf(statements.at(-1)!.statement);
    const reply: Reply =
      code !== null
        ? { error: { message: message ?? "", code } }
        : command === "SELECT"
          ? selected(answer)
          : { rows: "[]", command, rowCount: command === "CALL" ? null : affected };
    return { reply, change: state === null ? undefined : (JSON.parse(state) as Change) };
  }

  /** Ends all transactions and makes the database what it was. */
  async restore(state: Change, clockMs: number): Promise<void> {
    await this.#prepareRestore();
    await this.#monitor.query({
      name: "restore",
      text: "with clock as (update explore.clock set at = to_timestamp($2::double precision / 1000)) select explore.restore($1)",
      values: [JSON.stringify(state), clockMs],
    });
  }

  /** Ends all transactions that are open. */
  async endAll(): Promise<void> {
    if (this.#open.size > 0 || this.#waiting.size > 0) await this.#rollbackAll();
  }

  async #prepareRestore(): Promise<void> {
    await this.endAll();
    if (this.statements < this.#nextVacuum) return;
    this.#nextVacuum = this.statements + statementsAVacuum;
    await this.#monitor.query(`vacuum explore.clock, ${this.tables.map(({ name }) => name).join(", ")}`);
  }

  async #rollbackAll(): Promise<void> {
    this.#backends.letAllGo();
    const waiting = new Map(
      [...this.#waiting].map(([session, reply]) => [session, reply.then(() => session)]),
    );
    for (const session of this.#open) {
      if (!waiting.has(session)) await this.#clients.get(session)!.query("rollback");
    }
    // Whoever is let in by that first may be whom the others wait for.
    while (waiting.size > 0) {
      const session = await Promise.race(waiting.values());
      waiting.delete(session);
      await this.#clients.get(session)!.query("rollback");
    }
    this.#waiting.clear();
    this.#open.clear();
  }

  async setClock(clockMs: number): Promise<void> {
    await this.#monitor.query({
      name: "clock",
      text: "update explore.clock set at = to_timestamp($1::double precision / 1000)",
      values: [clockMs],
    });
  }

  /**
   * Runs a statement, the first of a transaction after `begin`; "blocked" where it waits for a lock that another
   * session holds. `wrote` is false for a verb outside of a transaction that changed nothing.
   */
  async run(
    session: string,
    statement: Statement,
    begin?: string,
  ): Promise<{ reply: Reply | "blocked"; wrote: boolean }> {
    const client = await this.#client(session);
    const isAside = !begin && !this.#open.has(session) && verbOf(statement) !== undefined;
    let wrote = true;
    this.#note(session, statement, begin);
    const answer = isAside
      ? sent(client, [seededText(statement), probe]).then(([reply, probed]) => {
          wrote = !(probed && "rows" in probed && probed.rows.includes("false"));
          return reply!;
        })
      : begin || isRandom(statement)
        ? sent(client, [...(begin ? [begin] : []), seededText(statement)]).then((replies) => replies.at(-1)!)
        : client.query({ text: statement.text, values: [...statement.values] }).then(replyOf, errorOf);
    this.#waiting.set(session, answer);
    const reply = await this.#answerOf(session);
    return { reply, wrote };
  }

  /** Runs what is known not to wait for anybody: a transaction's first statements, in one round trip. */
  async runTogether(session: string, statements: readonly Statement[], begin: string): Promise<Reply[]> {
    const client = await this.#client(session);
    for (const [i, statement] of statements.entries())
      this.#note(session, statement, i === 0 ? begin : undefined);
    return sent(client, [begin, ...statements.map(seededText)]);
  }

  #note(session: string, statement: Statement, begin: string | undefined): void {
    this.statements++;
    if (begin) this.#open.add(session);
    else if (isEnding(statement)) this.#open.delete(session);
  }

  /** Those whose statement waited for a lock and has been answered since. Ask after what can have let them in. */
  async woken(): Promise<{ session: string; reply: Reply }[]> {
    const woken: { session: string; reply: Reply }[] = [];
    for (const session of this.#waiting.keys()) {
      this.#backends.letGo(session);
      const reply = await this.#answerOf(session);
      if (reply !== "blocked") woken.push({ session, reply });
    }
    // Who was answered can have let another one in.
    return woken.length > 0 ? [...woken, ...(await this.woken())] : woken;
  }

  /**
   * Where several wait for this one, they race once it lets go. So all but the one that waited first are stopped, and
   * go on one after the other while `woken` looks at them: it is the same every time.
   */
  async holdBack(session: string): Promise<void> {
    if (this.#waiting.size < 2) return;
    const blockers = await this.#backends.blockers(this.#waiting.keys());
    const behind = [...blockers].filter(([, others]) => others.includes(session));
    this.#backends.stop(behind.slice(1).map(([other]) => other));
  }

  async #answerOf(session: string): Promise<Reply | "blocked"> {
    const reply = this.#waiting.get(session)!;
    const alone = this.#waiting.size === 1 && [...this.#open].every((other) => other === session);
    for (;;) {
      const first = await (alone ? reply : Promise.race([reply, silence()]));
      if (first) {
        this.#waiting.delete(session);
        return first;
      }
      const blockers = await this.#backends.blockers(this.#waiting.keys());
      // Each waits for the other: Postgres lets one of them fail, in a moment.
      if (isCircle(blockers, session)) await Promise.race(this.#waiting.values());
      else if (blockers.get(session)?.length) return "blocked";
    }
  }

  async #client(session: string): Promise<pg.Client> {
    let client = this.#clients.get(session);
    if (!client) {
      client = await connect(this.#url);
      const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
      this.#backends.add(session, rows[0]!.pid);
      this.#clients.set(session, client);
    }
    return client;
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  // A deadlock is found as soon as it can be.
  await client.query("set timezone = 'UTC'; set synchronous_commit = off; set deadlock_timeout = '20ms'");
  return client;
}

function silence(): Promise<undefined> {
  return new Promise((resolve) => realTimeout(resolve, silenceMs, undefined));
}
