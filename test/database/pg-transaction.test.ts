import pg from "pg";
import { expect, it, vi } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("oldest", "a transaction through pg", (fresh) => {
  /** One connection, so that what is left behind on it is found. */
  async function withDatabase(work: (database: Database<pg.PoolClient>) => Promise<void>): Promise<void> {
    const pool = new pg.Pool({ connectionString: fresh().url, max: 1 });
    const database: Database<pg.PoolClient> = pgDatabase(pool);
    try {
      await database.query("create table if not exists thing (id text primary key)");
      await database.query("truncate thing");
      await work(database);
    } finally {
      await pool.end();
    }
  }

  const add = "insert into thing values ($1)";
  const things = async (database: Database<pg.PoolClient>): Promise<unknown[]> => {
    const { rows } = await database.query("select id from thing order by id");
    return rows.map(({ id }) => id);
  };

  /** How many messages were sent meanwhile. */
  async function sent(work: () => Promise<unknown>): Promise<number> {
    const query = vi.spyOn(pg.Client.prototype, "query");
    try {
      await work();
      return query.mock.calls.length;
    } finally {
      query.mockRestore();
    }
  }

  it("begins with its first statement, and its last one commits: two messages for one row", async () => {
    await withDatabase(async (database) => {
      const messages = await sent(() => database.transaction((tx) => tx.query(add, ["one"])));
      expect(messages).toBe(2);
      expect(await things(database)).toEqual(["one"]);
    });
  });

  it("is one message where nothing was sent but the last word", async () => {
    await withDatabase(async (database) => {
      const messages = await sent(() =>
        database.transaction(async (_, ledger) => ledger.last!("insert into thing values ('last')")),
      );
      expect(messages).toBe(1);
      expect(await things(database)).toEqual(["last"]);
    });
  });

  it("asks a connection apart that has not answered us lately", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url, max: 1 });
    try {
      const work = (): Promise<unknown> =>
        pgDatabase(pool).transaction((tx) => tx.query("select $1::int", [1]));
      expect(await sent(work)).toBe(3);
    } finally {
      await pool.end();
    }
  });

  it("gives its first statement all that pg gives: rows, fields, count and command", async () => {
    await withDatabase(async (database) => {
      const first = await database.transaction((tx) =>
        tx.query<{ id: string }>("insert into thing values ($1), ($2) returning id", ["a", "b"]),
      );
      expect(first).toMatchObject({ command: "INSERT", rowCount: 2, rows: [{ id: "a" }, { id: "b" }] });
      expect(first.fields.map(({ name }) => name)).toEqual(["id"]);
      const arrays = await database.transaction((tx) =>
        tx.query({ text: "select $1::int as one", values: [1], rowMode: "array" }),
      );
      expect(arrays.rows).toEqual([[1]]);
    });
  });

  it("is read committed, and bounded in how long it stands idle, however it begins", async () => {
    const settings =
      "select current_setting('transaction_isolation') || ' ' || current_setting('idle_in_transaction_session_timeout') as it";
    await withDatabase(async (database) => {
      await database.query("set default_transaction_isolation = 'serializable'");
      for (const values of [[], ["joined"]]) {
        const { rows } = await database.transaction((tx) =>
          tx.query(values.length > 0 ? `${settings} where $1 <> ''` : settings, values),
        );
        expect(rows).toEqual([{ it: "read committed 5min" }]);
      }
      const { rows } = await database.query("show idle_in_transaction_session_timeout");
      expect(rows).toEqual([{ idle_in_transaction_session_timeout: "0" }]);
    });
  });

  it.each([
    ["the server refuses", "select 1 / $1::int", [0], { code: "22012" }],
    ["cannot be read", "selekt $1", [0], { code: "42601" }],
    [
      "pg cannot send",
      "select $1",
      [
        Object.create(null, {
          toPostgres: {
            value: () => {
              throw new Error("no");
            },
          },
        }),
      ],
      /no/,
    ],
  ])("undoes all and goes on where its first statement is one that %s", async (_, text, values, error) => {
    await withDatabase(async (database) => {
      const running = database.transaction(async (tx) => {
        await Promise.all([tx.query(text, values), tx.query(add, ["beside"])]);
      });
      if (error instanceof RegExp) await expect(running).rejects.toThrow(error);
      else await expect(running).rejects.toMatchObject(error);
      await database.transaction((tx) => tx.query(add, ["next"]));
      expect(await things(database)).toEqual(["next"]);
    });
  });

  it("tells of a refused first statement who sent it", async () => {
    await withDatabase(async (database) => {
      const running = database.transaction(async function creditInvoice(tx) {
        await tx.query("select 1 / $1::int", [0]);
      });
      await expect(running).rejects.toMatchObject({ stack: expect.stringContaining("creditInvoice") });
    });
  });

  it("lets statements that nobody awaits be part of it, in their order", async () => {
    await withDatabase(async (database) => {
      for (const first of [add, "insert into thing values ('text')"]) {
        await database.query("truncate thing");
        await database.transaction(async (tx) => {
          void tx.query(first, first === add ? ["one"] : undefined);
          void tx.query("update thing set id = id || '!'");
        });
        expect(await things(database)).toEqual([first === add ? "one!" : "text!"]);
      }
    });
  });

  it("begins before what answers by itself: a callback, a query of one's own", async () => {
    await withDatabase(async (database) => {
      const undone = database.transaction(async (tx) => {
        await new Promise((resolve) => tx.query(add, ["callback"], resolve));
        throw new Error("undo");
      });
      await expect(undone).rejects.toThrow("undo");
      const undoneToo = database.transaction(async (tx) => {
        const query = new pg.Query({ text: add, values: ["query"] });
        await new Promise((resolve) => tx.query(query).on("end", resolve));
        throw new Error("undo");
      });
      await expect(undoneToo).rejects.toThrow("undo");
      expect(await things(database)).toEqual([]);
    });
  });

  it("refuses what its user sends after its end, and says why", async () => {
    await withDatabase(async (database) => {
      let kept: pg.PoolClient | undefined;
      const late = database.transaction(async (tx) => {
        kept = tx;
      });
      await late;
      await expect(kept!.query(add, ["late"])).rejects.toMatchObject({
        code: "transaction_ended",
        message: expect.stringContaining("Await"),
      });
      const failed = database.transaction(async (tx) => {
        kept = tx;
        throw new Error("no");
      });
      await expect(failed).rejects.toThrow("no");
      await expect(kept!.query(add, ["late"])).rejects.toMatchObject({ code: "transaction_ended" });
      expect(await things(database)).toEqual([]);
    });
  });

  it.each([
    "begin",
    " COMMIT",
    "commit and chain",
    "rollback",
    "Rollback work",
    "end",
    "abort",
    "start transaction",
  ])("does not let its user send %j, and commits nothing", async (text) => {
    await withDatabase(async (database) => {
      const running = database.transaction(async (tx) => {
        await tx.query(add, ["mine"]);
        await tx.query(text);
      });
      await expect(running).rejects.toMatchObject({ code: "transaction_ended" });
      expect(await things(database)).toEqual([]);
    });
  });

  it("lets its user set savepoints and go back to them", async () => {
    await withDatabase(async (database) => {
      await database.transaction(async (tx) => {
        await tx.query(add, ["kept"]);
        await tx.query("savepoint here");
        await tx.query(add, ["undone"]);
        await tx.query("rollback to here");
        await tx.query("rollback transaction to savepoint here");
        await tx.query("release savepoint here");
      });
      expect(await things(database)).toEqual(["kept"]);
    });
  });

  it("notices where it was ended in another way, instead of completing what was not kept", async () => {
    await withDatabase(async (database) => {
      const running = database.transaction(async (tx, ledger) => {
        await tx.query(add, ["undone"]);
        await tx.query("/* enough */ rollback");
        ledger.last!("insert into thing values ('completed')");
      });
      await expect(running).rejects.toMatchObject({ code: "transaction_ended" });
      expect(await things(database)).toEqual([]);
    });
  });
});
