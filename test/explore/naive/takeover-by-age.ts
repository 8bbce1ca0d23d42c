import { type NaiveWay, staleMs } from "./way.ts";

/** Looks how old a claim is, and then takes it: two who find it old both take it. */
export const takeoverByAge: NaiveWay = {
  name: "take over by age, without compare-and-set",
  faults: ["crash before", "crash after"],
  async receive({ db, event, now }) {
    const { rowCount } = await db.query(
      "insert into app.seen (id, state, started_at) values ($1, 'running', $2) on conflict do nothing",
      [event, String(now)],
    );
    if (rowCount === 0) {
      const { rows } = await db.query("select state, started_at from app.seen where id = $1", [event]);
      if (rows[0]?.["state"] === "done") return 200;
      if (Number(rows[0]?.["started_at"]) > now - staleMs) return 409;
      await db.query("update app.seen set started_at = $2 where id = $1", [event, String(now)]);
    }
    await db.query(
      "with seen as (update app.seen set state = 'done' where id = $1) insert into app.effect (name) values ($1)",
      [event],
    );
    return 200;
  },
};
