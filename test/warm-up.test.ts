import pg from "pg";
import { afterEach, expect, it } from "vitest";
import type { Database } from "../src/database/database.ts";
import { pgDatabase, type PgClient } from "../src/database/pg.ts";
import { migrate } from "../src/ledger/migrate.ts";
import { createOnce, type Once } from "../src/once.ts";
import type { Source } from "../src/source/source.ts";
import { stripe } from "../src/source/stripe.ts";
import { describeWith } from "./support/postgres.ts";

describeWith("newest", "warming up", (database) => {
  let once: Once;

  afterEach(() => once?.stop());

  const onServer = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new pg.Client({ connectionString: database().url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  };

  it("opens as many connections as the pool may have, and runs on each what deliveries will need", async () => {
    const pool = pgDatabase(database().url, { max: 7 });
    const ran = new Map<unknown, Set<string | undefined>>();
    const watching: Database<PgClient> = {
      ...pool,
      transaction: (work, options) =>
        pool.transaction(async (tx, ledger) => {
          const verbs = new Set<string | undefined>();
          ran.set(tx, verbs);
          const query: typeof ledger.query = (text, params) => {
            verbs.add(/onceward"\.(\w+)/.exec(text)?.[1]);
            return ledger.query(text, params);
          };
          return work(tx, { ...ledger, query });
        }, options),
    };
    await migrate(pool);
    once = createOnce({ database: watching, migrate: false });
    await once.warmUp();
    expect([...ran.values()]).toEqual(
      Array.from({ length: 7 }, () => new Set(["record_call", "complete_many"])),
    );
  });

  it("writes nothing", async () => {
    once = createOnce({ database: database().url });
    once.source(stripe({ secrets: "whsec_test" })).on("charge.succeeded", () => {
      throw new Error("nothing was delivered");
    });
    await once.engine.ready();
    await once.warmUp();
    const tables = await onServer(
      "select relname from pg_class where relnamespace = 'onceward'::regnamespace and relkind = 'r'",
    );
    const written = [];
    for (const name of tables.map(({ relname }) => String(relname)).filter((table) => table !== "migration"))
      if ((await onServer(`select from onceward.${name}`)).length > 0) written.push(name);
    expect(written).toEqual([]);
  });

  it("lets each source read what it has signed itself", async () => {
    const read: string[] = [];
    const source = stripe({ secrets: "whsec_test" });
    const watched: Source = {
      ...source,
      identify(request) {
        const identity = source.identify(request);
        if ("id" in identity) read.push(identity.id);
        return identity;
      },
    };
    once = createOnce({ database: database().url });
    once.source(watched);
    await once.warmUp();
    expect(new Set(read)).toEqual(new Set(["evt_sample"]));
  });

  it("leaves a server alone that has no more connections to give", async () => {
    await onServer("create role warm login connection limit 2");
    const url = new URL(database().url);
    await onServer(
      `grant create on database ${url.pathname.slice(1)} to warm; grant all on schema onceward to warm`,
    );
    await onServer(
      "grant all on all tables in schema onceward to warm; grant execute on all routines in schema onceward to warm",
    );
    url.username = "warm";
    once = createOnce({ database: pgDatabase(url.href, { max: 5 }), migrate: false });
    await once.warmUp();
    expect((await once.database.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  });
});
