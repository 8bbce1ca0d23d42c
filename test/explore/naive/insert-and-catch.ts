import type { NaiveWay } from "./way.ts";

/** The unique key refuses the second insert. It refuses the retry after a crash, too, which is then told that all is well. */
export const insertAndCatch: NaiveWay = {
  name: "insert first, and catch 23505",
  faults: ["crash before", "crash after"],
  async receive({ db, event }) {
    try {
      await db.query("insert into app.seen (id, state) values ($1, 'seen')", [event]);
    } catch (error) {
      if ((error as { code?: string }).code === "23505") return 200;
      throw error;
    }
    await db.query("insert into app.effect (name) values ($1)", [event]);
    return 200;
  },
};
