import { EventEmitter, once } from "node:events";
import pg from "pg";
import { expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import { describeWith } from "../support/postgres.ts";
import { databaseSuite, type Opened } from "./suite.ts";

databaseSuite(
  "a URL through pg",
  { listens: true },
  async ({ url, ...options }): Promise<Opened<PgClient>> => ({
    database: pgDatabase(url, options),
    run: (tx, statement) => tx.query(statement),
    end: async () => {},
  }),
);

databaseSuite(
  "a pg.Pool",
  { listens: false },
  async ({ url, max, ...options }): Promise<Opened<pg.PoolClient>> => {
    const pool = new pg.Pool({ connectionString: url, max }); // without a timeout of its own, which is the default
    const database: Database<pg.PoolClient> = pgDatabase(pool, options);
    return { database, run: (tx, statement) => tx.query(statement), end: () => pool.end() };
  },
);

describeWith("oldest", "pg", (fresh) => {
  it("reads jsonb although the application has replaced the parser of JSON", async () => {
    const types = {
      getTypeParser: (() => (text: string) => `mine: ${text}`) as typeof pg.types.getTypeParser,
    };
    const pool = new pg.Pool({ connectionString: fresh().url, types });
    const database = pgDatabase(pool);
    try {
      const { rows } = await database.query(`select '{"a": 1}'::jsonb as it, 'text' as other`);
      expect(rows).toEqual([{ it: { a: 1 }, other: "mine: text" }]);
    } finally {
      await pool.end();
    }
  });

  it("ends its own pool with close, and no sooner than its listener", async () => {
    const database = pgDatabase(fresh().url);
    await database.listen?.("channel", () => {});
    await database.query("select 1");
    await database.close();
    const client = new pg.Client({ connectionString: fresh().url });
    await client.connect();
    const { rows } = await client.query(
      "select application_name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    await client.end();
    expect(rows).toEqual([]);
  });

  it("listens again after its connection was cut, and asks its callers to look once", async () => {
    const database = pgDatabase(fresh().url);
    const heard: string[] = [];
    let wake = (): void => {};
    const next = (): Promise<void> => new Promise((resolve) => (wake = resolve));
    const stop = await database.listen!("channel", (payload) => {
      heard.push(payload);
      wake();
    });
    let arrived = next();
    await database.query(
      "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'onceward listen' and datname = current_database()",
    );
    await arrived;
    expect(heard).toEqual([""]);
    arrived = next();
    await database.query("select pg_notify('channel', 'back')");
    await arrived;
    expect(heard).toEqual(["", "back"]);
    await stop();
    await database.close();
  });

  it("shares one connection between channels, and leaves a channel when its last listener does", async () => {
    const database = pgDatabase(fresh().url);
    const heard = new EventEmitter();
    const told: string[] = [];
    const listen = (channel: string, name: string): Promise<() => Promise<void>> =>
      database.listen!(channel, (payload) => {
        told.push(`${name} ${payload}`);
        heard.emit(`${name} ${payload}`);
      });
    const notify = (channel: string, payload: string): Promise<unknown> =>
      database.query("select pg_notify($1::text, $2::text)", [channel, payload]);
    const stopFirst = await listen("a", "first");
    const stopSecond = await listen("a", "second");
    const stopOther = await listen("b", "other");
    await Promise.all([once(heard, "first 1"), once(heard, "second 1"), notify("a", "1")]);
    await stopFirst();
    await Promise.all([once(heard, "second 2"), notify("a", "2")]);
    await stopSecond();
    await notify("a", "3");
    await Promise.all([once(heard, "other 4"), notify("b", "4")]);
    expect(told).toEqual(["first 1", "second 1", "second 2", "other 4"]);
    const { rows } = await database.query(
      "select count(*)::int as listeners from pg_stat_activity where application_name = 'onceward listen' and datname = current_database()",
    );
    expect(rows).toEqual([{ listeners: 1 }]);
    await stopOther();
    await database.close();
  });

  it("rejects at once when the first connection to listen cannot be made", async () => {
    const database = pgDatabase("postgres://postgres@127.0.0.1:1/none");
    await expect(database.listen!("channel", () => {})).rejects.toMatchObject({
      code: "database_unavailable",
    });
    await database.close();
  });

  it("leaves the application's pool open", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url });
    await pgDatabase(pool).close();
    await expect(pool.query("select 1 as one")).resolves.toMatchObject({ rows: [{ one: 1 }] });
    await pool.end();
  });

  it("survives the cut of a connection that the application has checked out itself", async () => {
    const pool = new pg.Pool({ connectionString: fresh().url });
    const database = pgDatabase(pool);
    const client = await pool.connect();
    const { rows } = await client.query("select pg_backend_pid() as pid");
    const gone = new Promise<void>((resolve) => client.once("end", resolve));
    await database.query("select pg_terminate_backend(($1::text)::int)", [String(rows[0].pid)]);
    await gone;
    await expect(client.query("select 1")).rejects.toThrow(/not queryable/);
    client.release();
    await pool.end();
  });
});
