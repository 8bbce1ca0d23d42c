/** Functions and operators in a schema of the search_path that fit a call of ours better than the server's own would win. */
import { expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { describeWith } from "../support/postgres.ts";
import { minute } from "./support.ts";

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
