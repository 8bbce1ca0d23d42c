/** What every adapter must do, whatever library is behind it. Each adapter's test runs this with its own way to open one. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { textArrayLiteral } from "../../src/database/array.ts";
import type { Database, Param, Queryable, Texts } from "../../src/database/database.ts";
import { dryTransaction } from "../../src/database/dry-run.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import {
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../support/postgres.ts";

export interface Opened<Tx> {
  readonly database: Database<Tx>;
  /** Runs one statement through the caller's own kind of transaction. */
  run(tx: Tx, statement: string): PromiseLike<unknown>;
  /** Ends what the test opened itself. */
  end(): Promise<void>;
}

export interface OpenOptions {
  readonly url: string;
  /** Connections of the pool. */
  readonly max: number;
  readonly connectionTimeoutMs?: number;
}

export type Open<Tx> = (options: OpenOptions) => Promise<Opened<Tx>>;

/** Opens what a test needs and ends it afterwards. */
export function opener<Tx>(open: Open<Tx>): Open<Tx> {
  const opened: Opened<Tx>[] = [];
  afterEach(async () => {
    for (const one of opened.splice(0)) {
      await one.database.close();
      await one.end();
    }
  });
  return async (options) => {
    const one = await open(options);
    opened.push(one);
    return one;
  };
}

export interface Traits {
  /** False for what has no server to connect to: PGlite. */
  readonly server?: boolean;
  /** Whether it can listen. */
  readonly listens: boolean;
}

export function databaseSuite<Tx>(name: string, { server = true, listens }: Traits, open: Open<Tx>): void {
  describe(`${name} as a database`, () => {
    let fresh: FreshDatabase | undefined;
    let opened: Opened<Tx>;
    let database: Database<Tx>;

    beforeAll(async () => {
      if (!server) return;
      fresh = await freshDatabase("newest");
      // Some applications do; the ledger is made for READ COMMITTED.
      const client = new pg.Client({ connectionString: fresh.url });
      await client.connect();
      const { rows } = await client.query("select current_database() as name");
      await client.query(`alter database ${rows[0].name} set default_transaction_isolation = 'serializable'`);
      await client.end();
    });
    // One for all: what a test leaves broken, the next one would find.
    beforeAll(async () => {
      opened = await open({ url: fresh?.url ?? "", max: 5 });
      database = opened.database;
    });
    afterAll(async () => {
      await database?.close();
      await opened?.end();
      await fresh?.drop();
    });
    beforeEach(async () => {
      await database.query("drop table if exists thing");
      await database.query("create table thing (id text primary key)");
    });

    const things = async (queryable: Queryable = database): Promise<unknown> => {
      const { rows } = await queryable.query(
        "select coalesce(jsonb_agg(id order by id), '[]'::jsonb) as ids from thing",
      );
      return rows[0]?.["ids"];
    };
    const add = (id: string): string => `insert into thing values ('${id}')`;

    describe("parameters and results", () => {
      const strange = [
        "it's",
        'a "quote"',
        "back\\slash",
        "",
        " ",
        "NULL",
        "{}",
        ",",
        "é ü 漢字 🙂",
        "a\nb\tc",
        "$1",
        "%s",
      ];

      it.each(strange)("brings back the text %j as it was", async (value) => {
        const { rows } = await database.query("select $1::text as value", [value]);
        expect(rows).toEqual([{ value }]);
      });

      it("takes true, false and null", async () => {
        const { rows } = await database.query(
          "select jsonb_build_object('yes', $1::boolean, 'no', $2::boolean, 'nothing', $3::text, 'empty', $4::boolean) as it",
          [true, false, null, null],
        );
        expect(rows[0]?.["it"]).toEqual({ yes: true, no: false, nothing: null, empty: null });
      });

      it("returns jsonb parsed, and text that looks like JSON as text", async () => {
        const value = { snake_case: [{ inner_key: "1" }, null, true, 1.5], text: 'ü"\\' };
        const { rows } = await database.query(
          "select ($1::text)::jsonb as a, $1::text as b, to_jsonb($2::text) as c",
          [JSON.stringify(value), '{"x": 1}'],
        );
        expect(rows).toEqual([{ a: value, b: JSON.stringify(value), c: '{"x": 1}' }]);
      });

      it("returns a null of jsonb, true and false", async () => {
        const { rows } = await database.query(
          "select null::jsonb as nothing, true as yes, $1::boolean as no",
          [false],
        );
        expect(rows).toEqual([{ nothing: null, yes: true, no: false }]);
      });

      it("casts text to what SQL wants of it, without a change", async () => {
        const { rows } = await database.query(
          `select to_jsonb(($1::text)::timestamptz at time zone 'UTC') as at, (($2::text)::bigint)::text as big,
                  to_jsonb(($3::text)::interval) as pause`,
          ["2026-11-16T10:00:00.123456Z", "9007199254740993", "60000 milliseconds"],
        );
        expect(rows).toEqual([
          { at: "2026-11-16T10:00:00.123456", big: "9007199254740993", pause: "00:01:00" },
        ]);
      });

      const arrays: (string | null)[][] = [
        [],
        [""],
        [null],
        [null, "", null],
        strange,
        ["a", null, "NULL", "null"],
      ];
      const sizes = [...arrays, Array.from({ length: 1000 }, (_, i) => `${i}`)];

      it.each(sizes.map((values) => [values.length, values] as const))(
        "takes a text[] of %i elements as the driver likes it and as a literal",
        async (_, values) => {
          const own = await database.query("select to_jsonb($1::text[]) as values", [
            asTaken(database, values),
          ]);
          expect(own.rows[0]?.["values"]).toEqual(values);
          const literal = await database.query("select to_jsonb(($1::text)::text[]) as values", [
            textArrayLiteral(values),
          ]);
          expect(literal.rows[0]?.["values"]).toEqual(values);
        },
      );

      it("takes arrays in a transaction as outside of it", async () => {
        const values = ["a", null, 'b"\\'];
        const { rows } = await database.transaction((_, ledger) => {
          return ledger.query("select to_jsonb($1::text[]) as values, $2::boolean as yes", [
            asTaken(ledger, values),
            true,
          ]);
        });
        expect(rows).toEqual([{ values, yes: true }]);
      });

      it("takes UTF-8 bytes as elements of a text[]", async () => {
        const { rows } = await database.query("select to_jsonb($1::text[]) as values", [
          asTaken(database, [Buffer.from('ü "🙂" \\'), "text", Buffer.alloc(0)]),
        ]);
        expect(rows[0]?.["values"]).toEqual(['ü "🙂" \\', "text", ""]);
      });

      it("runs a statement that returns nothing", async () => {
        await expect(database.query("do $$ begin perform 1; end $$")).resolves.toEqual({ rows: [] });
      });
    });

    describe("errors of statements", () => {
      it("come as they are, with their SQLSTATE, and the session goes on", async () => {
        const failing = database.query("select 1 / ($1::text)::int", ["0"]);
        await expect(failing).rejects.not.toHaveProperty("retry");
        await expect(things()).resolves.toEqual([]);
      });

      it("hold no parameter", async () => {
        const secret = "sk_live_4242";
        const error = await database
          .query("select ($1::text) || missing_column", [secret])
          .catch((e: unknown) => e);
        const shown = [error, (error as Error).cause].flatMap((one) =>
          one instanceof Error ? [one.message, JSON.stringify(one), ...Object.values(one).map(String)] : [],
        );
        expect(shown.join()).toContain("missing_column");
        expect(shown.join()).not.toContain(secret);
      });
    });

    it("can be used by a dry run, of which nothing is kept, also of what comes too late", async () => {
      let kept: Tx | undefined;
      const seen = await dryTransaction(database, (dry) =>
        dry.transaction<Tx, unknown>(async (tx, ledger) => {
          kept = tx;
          await opened.run(tx, add("dry"));
          return things(ledger);
        }),
      );
      expect(seen).toEqual(["dry"]);
      // Its connection serves others by now.
      await expect(async () => opened.run(kept as Tx, add("late"))).rejects.toThrow("a dry run that is over");
      expect(await things()).toEqual([]);
    });

    describe("a transaction", () => {
      it("commits what the caller and the ledger wrote through it, together", async () => {
        const result = await database.transaction(async (tx, ledger) => {
          await opened.run(tx, add("caller"));
          await ledger.query("insert into thing values ($1::text)", ["ledger"]);
          expect(await things(ledger)).toEqual(["caller", "ledger"]);
          return "the result";
        });
        expect(result).toBe("the result");
        expect(await things()).toEqual(["caller", "ledger"]);
      });

      it("rolls both back when the work throws, and passes on what it threw", async () => {
        const thrown = new Error("thrown by the handler");
        const running = database.transaction(async (tx, ledger) => {
          await opened.run(tx, add("caller"));
          await ledger.query("insert into thing values ($1::text)", ["ledger"]);
          throw thrown;
        });
        await expect(running).rejects.toBe(thrown);
        expect(await things()).toEqual([]);
      });

      it("does not take a failed request of a handler for a database that is away", async () => {
        const thrown = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } });
        await expect(database.transaction(() => Promise.reject(thrown))).rejects.toBe(thrown);
      });

      it("rejects when the caller swallowed the error of a statement", async () => {
        const running = database.transaction(async (tx) => {
          await opened.run(tx, add("first"));
          await opened.run(tx, add("first")).then(undefined, () => "swallowed");
          return "looks fine";
        });
        await expect(running).rejects.toMatchObject({ code: "transaction_aborted" });
        expect(await things()).toEqual([]);
      });

      it("rejects in the same way when the ledger's statement is the one to notice", async () => {
        const running = database.transaction(async (tx, ledger) => {
          await opened.run(tx, "select 1 / 0").then(undefined, () => "swallowed");
          await ledger.query("insert into thing values ('late')");
        });
        await expect(running).rejects.toMatchObject({ code: "transaction_aborted" });
      });

      it("rejects in the same way when the caller's next statement notices", async () => {
        const running = database.transaction(async (tx) => {
          await opened.run(tx, "select 1 / 0").then(undefined, () => "swallowed");
          await opened.run(tx, add("late"));
        });
        await expect(running).rejects.toMatchObject({ code: "transaction_aborted" });
      });

      it("does nothing for who still uses it after its end", async () => {
        let kept: Tx | undefined;
        await database.transaction(async (tx) => {
          kept = tx;
          await opened.run(tx, add("in time"));
        });
        await expect((async () => opened.run(kept!, add("late")))()).rejects.toThrow(/./);
        expect(await things()).toEqual(["in time"]);
      });

      it("leaves a clean session behind after each of these", async () => {
        for (let i = 0; i < 7; i++) {
          await database.transaction((tx) => Promise.resolve(opened.run(tx, "select 1 / 0"))).catch(() => {});
        }
        await database.transaction((tx) => Promise.resolve(opened.run(tx, add("fine"))));
        expect(await things()).toEqual(["fine"]);
      });

      it("runs beside others, more of them than there are connections", async () => {
        const ids = Array.from({ length: 20 }, (_, i) => `t${String(i).padStart(2, "0")}`);
        const ended = await Promise.allSettled(
          ids.map((id, i) =>
            database.transaction(async (tx, ledger) => {
              await opened.run(tx, add(id));
              await ledger.query("select 1");
              if (i % 2 === 1) throw new Error("odd");
            }),
          ),
        );
        expect(ended.map((one) => one.status)).toEqual(
          ids.map((_, i) => (i % 2 === 1 ? "rejected" : "fulfilled")),
        );
        expect(await things()).toEqual(ids.filter((_, i) => i % 2 === 0));
      });

      if (server) {
        it("is READ COMMITTED, whatever the database's default is", async () => {
          const levels = await database.transaction(async (_, ledger) => {
            const { rows } = await ledger.query("select current_setting('transaction_isolation') as level");
            return rows;
          });
          expect(levels).toEqual([{ level: "read committed" }]);
        });
      }
    });

    it("carries the ledger: its migrations, its verbs, and a completion that commits with the caller's work", async () => {
      await migrate(database);
      await database.query("delete from onceward.task");
      const verbs = new Verbs(database, "onceward");
      const body = JSON.stringify({ "snake_case 🙂": ['"', "\\", null] });
      const tasks = ["one", "two"].map((key) => ({ scope: "suite", key, body }));
      const claims = await verbs.record(tasks, { leaseMs: 60_000, worker: "suite" });
      expect(claims.map((claim) => claim.outcome)).toEqual(["claimed", "claimed"]);
      const attempt = claims[0]?.outcome === "claimed" ? claims[0].attempt : 0;
      const complete = async (tx: Tx, ledger: Queryable): Promise<unknown> => {
        await opened.run(tx, add("by the handler"));
        return verbs.within(ledger).complete([{ scope: "suite", key: "one", attempt }]);
      };
      await expect(
        database.transaction(async (tx, ledger) => {
          await complete(tx, ledger);
          throw new Error("after the completion");
        }),
      ).rejects.toThrow("after the completion");
      expect(await verbs.look({ scope: "suite", key: "one" })).toMatchObject({ state: "running" });
      expect(await database.transaction(complete)).toEqual(["done"]);
      expect(await verbs.look({ scope: "suite", key: "one" })).toMatchObject({ state: "done" });
      expect(await verbs.payload({ scope: "suite", key: "two" })).toBe(body);
      expect(await things()).toEqual(["by the handler"]);
    });

    it(listens ? "notifies who listens" : "has no listen where it cannot listen", async () => {
      if (!listens || !database.listen) return expect(database.listen !== undefined).toBe(listens);
      const heard: string[] = [];
      let all: () => void;
      const arrived = new Promise<void>((resolve) => (all = resolve));
      const stop = await database.listen('a "channel"', (payload) => {
        heard.push(payload);
        if (payload === "last") all();
      });
      await database.query("select pg_notify($1::text, $2::text)", ['a "channel"', "first ü"]);
      await database.query("select pg_notify($1::text, $2::text)", ["another", "not for us"]);
      await database.query("select pg_notify($1::text, $2::text)", ['a "channel"', "last"]);
      await arrived;
      expect(heard).toEqual(["first ü", "last"]);
      await stop();
    });

    if (server) serverTests(open, () => fresh!.url);
  });
}

function serverTests<Tx>(open: Open<Tx>, url: () => string): void {
  describe("when the database is away or busy", () => {
    const ready = opener(open);

    it("says database_unavailable while the server is gone, and goes on when it is back", async () => {
      const server: PostgresServer = await startPostgres();
      try {
        const { database } = await ready({ url: server.url, max: 2 });
        await database.query("select 1");
        await server.kill();
        const unavailable = { code: "database_unavailable", retry: true, status: 503 };
        await expect(database.query("select 1")).rejects.toMatchObject(unavailable);
        await expect(database.transaction(async () => "never")).rejects.toMatchObject(unavailable);
        await server.restart();
        await expect(database.transaction(async () => "works")).resolves.toBe("works");
      } finally {
        await server.stop();
      }
    });

    it("survives a connection that is cut inside a transaction", async () => {
      const { database, run } = await ready({ url: url(), max: 2 });
      const { rows } = await database.query("select 'before' as state");
      expect(rows).toEqual([{ state: "before" }]);
      const running = database.transaction(async (tx, ledger) => {
        const { rows: pids } = await ledger.query("select pg_backend_pid() as pid");
        // From another session, which waits until this one is gone.
        await database.query("select pg_terminate_backend(($1::text)::int, 10000)", [
          String(pids[0]?.["pid"]),
        ]);
        await run(tx, "select 1");
      });
      await expect(running).rejects.toMatchObject({ code: "database_unavailable" });
      await expect(database.transaction(async () => "works")).resolves.toBe("works");
    });

    it("never runs the rest of a transaction outside of it, when its connection is cut and others want one", async () => {
      const { database, run } = await ready({ url: url(), max: 2 });
      await database.query("drop table if exists half");
      await database.query("create table half (id text, half text)");
      const outcomes = new Set<string>();
      for (let round = 0; round < 12; round++) {
        const running = database.transaction(async (tx, ledger) => {
          const { rows } = await ledger.query("select pg_backend_pid() as pid");
          await run(tx, `insert into half values ('${round}', 'first')`);
          const cut = database.query("select pg_terminate_backend(($1::text)::int, 10000)", [
            String(rows[0]?.["pid"]),
          ]);
          // Others wait for a connection meanwhile, so that one is opened in the place of the one that is cut.
          const others = Array.from({ length: 4 }, () => database.query("select 1").catch(() => {}));
          // Sometimes before the cut, sometimes in it, sometimes long after it.
          if (round % 3 > 0) await cut;
          if (round % 3 > 1) await Promise.all(others);
          await run(tx, `insert into half values ('${round}', 'second')`).then(undefined, () => "swallowed");
          await Promise.all([cut.catch(() => {}), ...others]);
        });
        outcomes.add(
          await running.then(
            () => "committed",
            (error: { code?: string }) => error.code ?? "another error",
          ),
        );
      }
      outcomes.delete("committed");
      outcomes.delete("database_unavailable");
      outcomes.delete("transaction_aborted");
      expect([...outcomes]).toEqual([]);
      const { rows } = await database.query("select id from half group by id having count(*) <> 2");
      expect(rows).toEqual([]);
    });

    it("says pool_exhausted when no connection becomes free, and runs nothing late", async () => {
      const { database, run } = await ready({ url: url(), max: 1, connectionTimeoutMs: 1_000 });
      await database.query("create table if not exists late (id text)");
      await database.query("truncate late");
      const ended = deferred();
      const holding = deferred();
      const first = database.transaction(async () => {
        holding.resolve();
        await ended.promise;
      });
      await holding.promise;
      await expect(
        database.transaction((tx) => Promise.resolve(run(tx, "insert into late values ('transaction')"))),
      ).rejects.toMatchObject({ code: "pool_exhausted", retry: true, status: 503 });
      await expect(database.query("insert into late values ('query')")).rejects.toMatchObject({
        code: "pool_exhausted",
      });
      ended.resolve();
      await first;
      const { rows } = await database.query("select count(*)::int as late from late");
      expect(rows).toEqual([{ late: 0 }]);
    });

    it("does not take a slow statement for an exhausted pool", async () => {
      const { database } = await ready({ url: url(), max: 1, connectionTimeoutMs: 1_000 });
      const { rows } = await database.query("select 'done' as it from pg_sleep(1.3)");
      expect(rows).toEqual([{ it: "done" }]);
      const slow = await database.transaction((_, ledger) =>
        ledger.query("select 'done' as it from pg_sleep(1.3)"),
      );
      expect(slow.rows).toEqual([{ it: "done" }]);
    });
  });
}

/** As the ledger sends a text[]. */
function asTaken({ takesTexts }: Queryable, values: Texts): Param {
  return takesTexts ? values : textArrayLiteral(values);
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
