import { type NaiveWay, staleMs } from "./way.ts";

/** Claims with compare-and-set, and sends. Who dies between sending and saying so leaves a mail that is sent again. */
export const claimThenSend: NaiveWay = {
  name: "claim, then send",
  faults: ["crash before", "crash after"],
  async receive({ db, mailer, event, now }) {
    const claimed = await db.query(
      `insert into app.seen as s (id, state, started_at) values ($1, 'running', $2)
       on conflict (id) do update set started_at = excluded.started_at
         where s.state = 'running' and s.started_at < excluded.started_at - $3::bigint`,
      [event, String(now), String(staleMs)],
    );
    if (claimed.rowCount === 0) {
      const { rows } = await db.query("select state from app.seen where id = $1", [event]);
      return rows[0]?.["state"] === "done" ? 200 : 409;
    }
    await mailer.send(event, `mail for ${event}`);
    await db.query("update app.seen set state = 'done' where id = $1", [event]);
    return 200;
  },
};
