/** What sessions, roles and databases may set, and what the ledger makes of it. */
import { expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { describeWith } from "../support/postgres.ts";
import { minute } from "./support.ts";

/** Those of a schema in the search_path that fit a call of ours better than the server's own would win. */
const functions = [
  "hashtextextended(text, integer)",
  "quote_ident(name)",
  "pg_relation_size(oid)",
  "pg_total_relation_size(oid)",
];
const operators = [
  ["+", "numeric", "double precision"],
  ["*", "numeric", "integer"],
  ["*", "bigint", "interval"],
  ["*", "double precision", "integer"],
  ["/", "interval", "integer"],
  ["/", "integer", "double precision"],
  ["-", "bigint", "numeric"],
  ["<", "numeric", "integer"],
  ["<=", "numeric", "integer"],
  [">=", "real", "integer"],
  ["=", "oid", "regclass"],
  ["=", "oid", "integer"],
  ["||", "text", "name"],
] as const;

for (const which of ["newest", "oldest"] as const) {
  describeWith(which, `DateStyle (${which} Postgres)`, (fresh) => {
    it("does not change what a filter by time finds", async () => {
      const database = pgDatabase(fresh().url, { max: 1 });
      try {
        await migrate(database);
        await database.query("select set_config('datestyle', 'SQL, DMY', false)");
        // An hour east of Greenwich, as once in Ireland. Before Postgres 18 "IST" is read as two hours east.
        await database.query("select set_config('timezone', 'IST-1', false)");
        const verbs = new Verbs(database, "onceward");
        await verbs.record([{ scope: "s", key: "k" }], { leaseMs: minute, worker: "w" });
        await verbs.fail([{ scope: "s", key: "k", attempt: 1, reason: "x", retry: "never" }]);
        const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
        const find = (filter: object): Promise<unknown[]> => verbs.call("find", [JSON.stringify(filter)]);
        expect(await find({ since: ago(minute), until: ago(-minute) })).toHaveLength(1);
        expect(await find({ until: ago(minute) })).toEqual([]);
        expect(await verbs.call("replay_count", ['{"states": ["dead"]}'])).toBe(1);
        await verbs.call("replay_begin", ["r", '{"states": ["dead"]}']);
        expect(await verbs.call("replay_next", ["r"])).toMatchObject({ replayed: 1, ended: true });
      } finally {
        await database.close();
      }
    });
  });
}

describeWith("newest", "the isolation of transactions", (fresh) => {
  it("that a database sets is told to the doctor", async () => {
    const database = pgDatabase(fresh().url, { max: 1 });
    try {
      await migrate(database);
      const verbs = new Verbs(database, "onceward");
      const level = async (): Promise<unknown> =>
        (await verbs.call<{ settings: Record<string, string> }>("examine", [])).settings[
          "default_transaction_isolation"
        ];
      expect(await level()).toBe("read committed");
      await database.query("select set_config('default_transaction_isolation', 'serializable', false)");
      expect(await level()).toBe("serializable");
    } finally {
      await database.close();
    }
  });
});

describeWith("newest", "the search_path", (fresh) => {
  it("lets nobody slip a function of his own into ours", async () => {
    const database = pgDatabase(fresh().url, { max: 1 });
    try {
      await migrate(database);
      const trap = "language plpgsql as $fn$ begin raise exception 'a trap'; end $fn$";
      for (const one of functions)
        await database.query(`create function public.${one} returns bigint ${trap}`);
      for (const [i, [name, left, right]] of operators.entries()) {
        await database.query(`create function public.trap${i}(${left}, ${right}) returns boolean ${trap}`);
        await database.query(
          `create operator public.${name} (leftarg = ${left}, rightarg = ${right}, function = public.trap${i})`,
        );
      }
      await expect(database.query("select hashtextextended('a', 1)")).rejects.toThrow("a trap");

      const verbs = new Verbs(database, "onceward");
      const scope = "job/a";
      const lease = { leaseMs: minute, worker: "w" };
      const line = ["1", "2", "3", "4"].map((key) => ({ scope, key, serial: "g", slots: 1 }));
      expect(await verbs.record(line, lease)).toHaveLength(4);
      await verbs.record([{ scope, key: "5" }], lease);
      await verbs.record([
        { scope, key: "6" },
        { scope, key: "0198a0b5c3d27f1e8a4b6c9d0e1f2a3b" },
      ]);
      const limits = { [scope]: { running: 9, rate: { limit: 99, perMs: 1 } } };
      expect((await verbs.claimDue([scope], { max: 1, ...lease, limits })).tasks).toHaveLength(1);
      await verbs.claim({ scope, key: "4" }, lease);
      await verbs.complete([{ scope, key: "1", attempt: 1 }]);
      await verbs.call("cancel", [scope, "0198a0b5c3d27f1e8a4b6c9d0e1f2a3b"]);
      await database.query("update onceward.task set finished_at = finished_at - interval '3 hours'");
      await verbs.call("prune", ["keys", "2 hours", null, null, null, "false", null, "1000", "true"]);
      for (const verb of ["stats", "status", "stuck", "examine"]) await verbs.call(verb, []);
      await verbs.call("rows_of", [scope, "5"]);
      await verbs.call("replay_begin", ["r", '{"states": ["dead"]}', "false", "10"]);
      await verbs.call("replay_next", ["r"]);
    } finally {
      await database.close();
    }
  });
});
