/**
 * A process to be killed. It says first what it finds in the embedded database, then writes pairs of rows, each
 * pair in a transaction, and acknowledges each on standard output as soon as it is committed.
 */
import { writeSync } from "node:fs";
import { embeddedDatabase } from "../../src/database/embedded.ts";

const [folder = ""] = process.argv.slice(2);
const say = (value: unknown): unknown => writeSync(1, `${JSON.stringify(value)}\n`);

const database = embeddedDatabase({ folder, log: () => {} });
try {
  await database.query("create table if not exists pair (id integer, half text, primary key (id, half))");
  const { rows } = await database.query(`
    select coalesce(max(id), 0) as newest, count(*)::int as rows, count(distinct id)::int as ids from pair`);
  say({ found: rows[0] });
  for (let id = Number(rows[0]?.["newest"]) + 1; ; id++) {
    await database.transaction(async (tx, ledger) => {
      await tx.query("insert into pair values ($1, 'first')", [id]);
      await ledger.query("insert into pair values (($1::text)::int, 'second')", [String(id)]);
    });
    say({ committed: id });
    // Checkpoints and vacuums are moments to be killed in as well.
    if (id % 50 === 0) await database.query("checkpoint");
    if (id % 70 === 0) await database.query("vacuum pair");
  }
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  say({ refused: code, message });
}
