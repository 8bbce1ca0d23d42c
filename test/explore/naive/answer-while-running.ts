import { type NaiveWay, staleMs } from "./way.ts";

/** Takes over what a dead process left, but tells the sender 200 while another one runs: then nobody comes back for it. */
export const answerWhileRunning: NaiveWay = {
  name: "answer 200 while another one runs",
  faults: ["crash before", "crash after"],
  async receive({ db, event, now }) {
    const claimed = await db.query(
      `insert into app.seen as s (id, state, started_at) values ($1, 'running', $2)
       on conflict (id) do update set started_at = excluded.started_at
         where s.state = 'running' and s.started_at < excluded.started_at - $3::bigint`,
      [event, String(now), String(staleMs)],
    );
    if (claimed.rowCount === 0) return 200;
    await db.query(
      "with seen as (update app.seen set state = 'done' where id = $1) insert into app.effect (name) values ($1)",
      [event],
    );
    return 200;
  },
};
