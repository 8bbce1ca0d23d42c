/** The index that looks back by time: of ranges of pages, which somebody has to summarise. */
import { expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { describeWith } from "../support/postgres.ts";

describeWith("newest", "the times of tasks", (fresh) => {
  it("are summarised by vacuum, and by no request for each range, which would fill the server's log", async () => {
    const database = pgDatabase(fresh().url, { max: 1 });
    try {
      await migrate(database);
      const ask = async (sql: string): Promise<unknown> => (await database.query(sql)).rows[0]?.["answer"];
      const summarised = (): Promise<unknown> =>
        ask("select brin_summarize_new_values('onceward.task_created')::text as answer");
      const insert = (from: number): Promise<unknown> =>
        database.query(
          `insert into onceward.task (created_at, finished_at, state, attempt, tries, scope, key)
           select now(), now(), 'done', 1, 1, 'job/x', i::text from generate_series(${from}, ${from + 4_999}) as i`,
        );
      await insert(0);
      await database.query("vacuum onceward.task");
      // The last one, which is not full yet.
      expect(await summarised()).toBe("1");
      await insert(5_000);
      expect(Number(await summarised())).toBeGreaterThan(1);
      const options = "select reloptions::text as answer from pg_class where relname = 'task_created'";
      expect(await ask(options)).toBe("{pages_per_range=16}");
    } finally {
      await database.close();
    }
  });
});
