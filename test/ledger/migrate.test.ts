import pg from "pg";
import { afterAll, describe, expect, it } from "vitest";
import type { Database, Queryable } from "../../src/database/database.ts";
import { sqlStateOf } from "../../src/database/failure.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import { checkSchema, migrate, migrationSql } from "../../src/ledger/migrate.ts";
import { migrations } from "../../src/ledger/sql.ts";
import { freshDatabase, type FreshDatabase, needs, type Which } from "../support/postgres.ts";
import { describeOnPglite, minute } from "./support.ts";

const opened: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of opened.toReversed()) await close();
});

/** An empty database, and a way to open it any number of times. */
async function empty(which: Which): Promise<{ fresh: FreshDatabase; open: () => Database }> {
  const fresh = await freshDatabase(which);
  opened.push(() => fresh.drop());
  const open = (): Database => {
    const database = pgDatabase(fresh.url, { max: 3 });
    opened.push(() => database.close());
    return database;
  };
  return { fresh, open };
}

/** What there is in a schema, with the identity of each: a function that was made again is another one. */
async function contents(database: Queryable, schema = "onceward"): Promise<unknown> {
  const { rows } = await database.query(
    `select jsonb_build_object(
       'functions', (select jsonb_agg(array[p.oid::text, p.xmin::text] order by p.oid)
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = $1::text),
       'relations', (select jsonb_agg(c.oid::text order by c.oid)
         from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1::text)) as it`,
    [schema],
  );
  return rows[0]?.["it"];
}

async function versions(database: Queryable): Promise<unknown> {
  const { rows } = await database.query(
    "select coalesce(jsonb_agg(version order by version), '[]') as versions from onceward.migration",
  );
  return rows[0]?.["versions"];
}

const all = migrations.map((migration) => migration.version);

for (const which of ["newest", "oldest"] as const) {
  describe(`migrations (${which} Postgres)`, () => {
    const need = which === "newest" ? needs.postgres : needs.oldestPostgres;

    it("twenty processes that start at once all find a ledger, migrated once", async (context) => {
      await need(context);
      const { open } = await empty(which);
      const databases = Array.from({ length: 20 }, open);
      await Promise.all(databases.map((database) => migrate(database)));
      await Promise.all(databases.map((database) => checkSchema(database)));
      expect(await versions(databases[0]!)).toEqual(all);
      const recorded = await Promise.all(
        databases.map((one) => new Ledger(one).record({ scope: "s", key: "k" })),
      );
      expect(recorded.filter((one) => one.outcome === "recorded")).toHaveLength(1);
    });

    it("twenty at once do so too where transactions are serializable by default", async (context) => {
      await need(context);
      const { fresh, open } = await empty(which);
      const name = new URL(fresh.url).pathname.slice(1);
      await open().query(`alter database ${name} set default_transaction_isolation = 'serializable'`);
      const databases = Array.from({ length: 20 }, open);
      await Promise.all(databases.map((database) => migrate(database)));
      expect(await versions(databases[0]!)).toEqual(all);
    });

    it("once applied, change nothing", async (context) => {
      await need(context);
      const { open } = await empty(which);
      const database = open();
      expect(await migrate(database)).toEqual({ applied: all });
      const before = await contents(database);
      expect(await migrate(database)).toEqual({ applied: [] });
      expect(await contents(database)).toEqual(before);
    });

    it("as printed SQL can be run twice, by hand, and are known to the library then", async (context) => {
      await need(context);
      const { fresh, open } = await empty(which);
      const client = new pg.Client({ connectionString: fresh.url });
      await client.connect();
      opened.push(() => client.end());
      // As psql or a hosted SQL editor sends it: the simple protocol, with something before and after it.
      await client.query(`select 1; ${migrationSql()}; select 2;`);
      const database = open();
      const before = await contents(database);
      await client.query(migrationSql());
      expect(await contents(database)).toEqual(before);
      await checkSchema(database);
      expect(await migrate(database)).toEqual({ applied: [] });
    });

    it("that fail half way leave nothing behind", async (context) => {
      await need(context);
      const { open } = await empty(which);
      const database = open();
      const broken = migrationSql().replace("end\n$onceward_do$", "perform 1 / 0;\nend\n$onceward_do$");
      await expect(database.query(broken)).rejects.toThrow("division by zero");
      const { rows } = await database.query("select 1 from pg_namespace where nspname = 'onceward'");
      expect(rows).toEqual([]);
      expect(await migrate(database)).toEqual({ applied: all });
    });
  });
}

describeOnPglite("a schema", (bench) => {
  const own = (name: string): { schema: string } => ({ schema: name });
  const change = (schema: string, statement: string): Promise<unknown> =>
    bench().database.query(statement.replaceAll("SCHEMA", `"${schema}"`));

  it("that is missing is said to be missing", async () => {
    await expect(checkSchema(bench().database, own("nowhere"))).rejects.toMatchObject({
      code: "schema_missing",
    });
    await change("without a ledger", "create schema SCHEMA");
    await expect(checkSchema(bench().database, own("without a ledger"))).rejects.toMatchObject({
      code: "schema_missing",
    });
    expect(await migrate(bench().database, own("without a ledger"))).toEqual({ applied: all });
  });

  it("that is older than the code is said to be outdated", async () => {
    const { database } = bench();
    await migrate(database, own("old"));
    await change("old", `delete from SCHEMA.migration where version = ${all.length}`);
    await expect(checkSchema(database, own("old"))).rejects.toMatchObject({ code: "schema_outdated" });
  });

  it("that newer code changed is refused if the change is breaking, and else used", async () => {
    const { database } = bench();
    await migrate(database, own("new"));
    const add = (version: number, breaking: boolean): Promise<unknown> =>
      change("new", `insert into SCHEMA.migration values (${version}, 'later', ${breaking}, 'x', now())`);
    await add(900, false);
    await checkSchema(database, own("new"));
    expect(await migrate(database, own("new"))).toEqual({ applied: [] });
    await add(901, true);
    await expect(checkSchema(database, own("new"))).rejects.toMatchObject({ code: "schema_too_new" });
    await expect(migrate(database, own("new"))).rejects.toMatchObject({ code: "schema_too_new" });
  });

  it("that was made from another text is refused", async () => {
    const { database } = bench();
    await migrate(database, own("altered"));
    await change("altered", "update SCHEMA.migration set checksum = 'other' where version = 2");
    await expect(checkSchema(database, own("altered"))).rejects.toMatchObject({ code: "schema_altered" });
    await expect(migrate(database, own("altered"))).rejects.toMatchObject({ code: "schema_altered" });
  });

  it("has a name that can stand in SQL", async () => {
    for (const name of [
      "",
      " a",
      "1a",
      'a"b',
      "a'b",
      "a;b",
      "a.b",
      "$$",
      "pg_a",
      "a\nb",
      "é".repeat(32),
      "a\0",
    ]) {
      const invalid = { code: "config_invalid" };
      await expect(migrate(bench().database, own(name))).rejects.toMatchObject(invalid);
      expect(() => migrationSql(own(name))).toThrow(expect.objectContaining(invalid));
      expect(() => new Ledger(bench().database, own(name))).toThrow(expect.objectContaining(invalid));
    }
  });
});

describe("a schema of another name", () => {
  const schema = "My Ledger-2";

  it("holds the whole ledger: every verb works, and nothing is looked for elsewhere", async (context) => {
    await needs.postgres(context);
    const { open } = await empty("newest");
    const database = open();
    await migrate(database, { schema });
    const { verbs } = new Ledger(database, { schema });
    const task = { scope: "s", key: "k", serial: "g", body: "b" };
    const lease = { leaseMs: minute, worker: "w" };
    expect(await verbs.hello("w", ["s"])).toBe("hello");
    expect(await verbs.record([task, { ...task, key: "2" }])).toMatchObject([
      { outcome: "recorded" },
      { outcome: "recorded" },
    ]);
    expect(await verbs.record([task], lease)).toMatchObject([{ outcome: "claimed" }]);
    expect(await verbs.record([{ scope: "s", key: "x" }], lease)).toMatchObject([{ outcome: "claimed" }]);
    expect(await verbs.renew([{ ...task, attempt: 1 }], minute)).toEqual(["renewed"]);
    expect(await verbs.saveSteps([{ ...task, attempt: 1, name: "a", state: "started" }])).toEqual(["saved"]);
    expect(await verbs.signal(task, { name: "go" })).toEqual({ outcome: "sent" });
    expect(await verbs.defer({ ...task, attempt: 1 }, { signal: "go", delayMs: "forever" })).toBe("waiting");
    const limits = { s: { running: 1, rate: { limit: 1, perMs: 1 } } };
    expect(await verbs.claimDue(["s"], { max: 1, ...lease, limits })).toMatchObject({
      tasks: [{ key: "k" }],
    });
    expect(await verbs.fail([{ ...task, attempt: 2, reason: "x", retry: "unknown" }])).toEqual(["unknown"]);
    expect(await verbs.resolveStep(task, { name: "a", decision: "done" })).toEqual({ outcome: "resolved" });
    expect(await verbs.replay([task])).toEqual([{ outcome: "replayed" }]);
    expect(await verbs.cancel(task)).toEqual({ outcome: "cancelled" });
    expect(await verbs.claim({ ...task, key: "2" }, lease)).toMatchObject({ outcome: "claimed" });
    expect(await verbs.complete([{ ...task, key: "2", attempt: 1, result: "1" }])).toEqual(["done"]);
    expect(await verbs.replay([{ ...task, key: "2" }], { again: true })).toEqual([
      { outcome: "replayed again" },
    ]);
    expect(await verbs.once("e")).toBe(true);
    const move = { machine: "m", subject: "s", move: "go", from: ["a"], to: "b", initial: "a" };
    expect(
      await verbs.move({ ...move, timers: [{ move: "on", after: "1 day", delayMs: minute }] }),
    ).toMatchObject({
      outcome: "moved",
    });
    expect(await verbs.machineState("m", "s")).toMatchObject({ state: "b", timers: [{ state: "waiting" }] });
    expect(await verbs.newer({ scope: "o", key: "1", version: "1" })).toMatchObject({ verdict: "apply" });
    expect(await verbs.look(task)).toMatchObject({
      state: "cancelled",
      signals: { go: {} },
      steps: [{ name: "a" }],
    });
    expect(await verbs.payload(task)).toBe("b");
    expect((await verbs.stats()).unfinished.length).toBeGreaterThan(0);
    expect(await verbs.prune({ what: "keys", olderThanMs: 400 * 24 * 60 * minute })).toEqual({
      pruned: 0,
      after: null,
    });
    expect(await verbs.goodbye("w")).toBe("goodbye");
    const { rows } = await database.query("select nspname from pg_namespace where nspname like 'oncew%'");
    expect(rows).toEqual([]);
  });

  it("shares a database with another ledger, and nothing else", async (context) => {
    await needs.postgres(context);
    const { open } = await empty("newest");
    const database = open();
    const ledgers = await Promise.all(
      ["onceward", schema, "über_1"].map(async (name) => {
        await migrate(database, { schema: name });
        return new Ledger(database, { schema: name });
      }),
    );
    for (const ledger of ledgers)
      expect(await ledger.record({ scope: "s", key: "k" })).toEqual({ outcome: "recorded" });
    await expect(ledgers[1]!.verbs.cancel({ scope: "s", key: "k" })).resolves.toEqual({
      outcome: "cancelled",
    });
    expect(await ledgers[0]!.verbs.look({ scope: "s", key: "k" })).toMatchObject({ state: "waiting" });
  });
});

describe("privileges", () => {
  it("public may execute nothing and see nothing; a role that was granted it may use the ledger", async (context) => {
    await needs.postgres(context);
    const { fresh, open } = await empty("newest");
    const database = open();
    await migrate(database);
    const suffix = `${process.pid}_${Date.now()}`;
    const [stranger, app] = [`stranger_${suffix}`, `app_${suffix}`];
    const owner = new pg.Client({ connectionString: fresh.url });
    await owner.connect();
    const roles = new pg.Client({ connectionString: fresh.url });
    await roles.connect();
    opened.push(async () => {
      await roles.query("reset role");
      await roles.query(`drop owned by ${stranger}, ${app}`);
      await roles.query(`drop role ${stranger}, ${app}`);
      await roles.end();
      await owner.end();
    });
    await owner.query(`create role ${stranger}`);
    await owner.query(`create role ${app}`);

    const { rows: functions } = await owner.query<{ call: string; name: string }>(
      `select p.proname as name, format('%s onceward.%I(%s)', case p.prokind when 'p' then 'call' else 'select' end, p.proname,
         (select string_agg(format('null::%s', format_type(t.oid, null)), ', ' order by t.n)
          from unnest(p.proargtypes) with ordinality as t(oid, n))) as call
       from pg_proc p where p.pronamespace = 'onceward'::regnamespace order by 1`,
    );
    expect(functions.map((one) => one.name)).toEqual(
      expect.arrayContaining(["claim", "complete_many", "take", "now"]),
    );
    const { rows: tables } = await owner.query<{ name: string }>(
      `select format('onceward.%I', relname) as name from pg_class
       where relnamespace = 'onceward'::regnamespace and relkind = 'r'`,
    );
    const refused = async (statement: string): Promise<string | undefined> => {
      try {
        await roles.query(statement);
        return "allowed";
      } catch (error) {
        return sqlStateOf(error);
      }
    };
    const probes = [...functions.map((one) => one.call), ...tables.map((one) => `select from ${one.name}`)];
    await roles.query(`set role ${stranger}`);
    for (const probe of probes) expect([probe, await refused(probe)]).toEqual([probe, "42501"]);
    // Even one who may look into the schema gets no further: each function and table is closed itself.
    await owner.query(`grant usage on schema onceward to ${stranger}`);
    for (const probe of probes) expect([probe, await refused(probe)]).toEqual([probe, "42501"]);

    await owner.query(`grant usage on schema onceward to ${app}`);
    await owner.query(`grant select, insert, update, delete on all tables in schema onceward to ${app}`);
    await owner.query(`grant execute on all routines in schema onceward to ${app}`);
    await roles.query(`set role ${app}`);
    const { rows } = await roles.query("select onceward.record('s', 'k', lease => '1 minute') as recorded");
    expect(rows).toEqual([{ recorded: { outcome: "claimed", attempt: 1 } }]);
    expect((await roles.query("select onceward.complete('s', 'k', '1') as done")).rows).toEqual([
      { done: "done" },
    ]);
  });
});
