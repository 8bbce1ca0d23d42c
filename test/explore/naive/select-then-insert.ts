import type { NaiveWay } from "./way.ts";

/** Looks whether the event was seen, and if not handles it. Two who look at once both handle it. */
export const selectThenInsert: NaiveWay = {
  name: "select, then insert",
  faults: [],
  async receive({ db, event }) {
    const { rows } = await db.query("select state from app.seen where id = $1", [event]);
    if (rows.length > 0) return 200;
    await db.query("insert into app.effect (name) values ($1)", [event]);
    await db.query("insert into app.seen (id, state) values ($1, 'done') on conflict do nothing", [event]);
    return 200;
  },
};
