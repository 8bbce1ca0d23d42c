/** PGlite by hand, as a measure for the embedded ledger. */
import type { Running, Setup, Variant } from "../variant.ts";

const table = `create table if not exists webhook_event (
  id text primary key, type text not null, body text not null, state text not null default 'received');`;

async function open(folder: string) {
  const { PGlite } = await import("@electric-sql/pglite");
  return PGlite.create(folder);
}

export const embeddedNaive: Variant = {
  title: "by hand on PGlite: insert, update",
  kind: "naive",
  store: "pglite",
  modes: ["receive", "jobs"],
  package: "@electric-sql/pglite",
  load: () => import("@electric-sql/pglite"),
  notes: "One insert and one update an event, each committed by itself; a crash in between loses the event.",
  async prepare({ database }) {
    const db = await open(database);
    await db.exec(table);
    await db.close();
  },
  async open(setup: Setup): Promise<Running> {
    const db = await open(setup.database);
    const insert = "insert into webhook_event (id, type, body) values ($1, $2, $3) on conflict do nothing";
    return {
      async enqueue(event, bytes) {
        const { affectedRows } = await db.query(insert, [event.id, event.type, bytes.toString()]);
        if (setup.mode === "receive" || affectedRows === 0) return;
        setup.started(event.id);
        await db.query("update webhook_event set state = 'done' where id = $1", [event.id]);
        setup.finished(event.id);
      },
      async unfinished() {
        const { rows } = await db.query<{ count: number }>(
          "select count(*) from webhook_event where state <> 'done'",
        );
        return rows[0]!.count;
      },
      close: () => db.close(),
    };
  },
};
