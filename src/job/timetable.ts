import type { Ledger } from "../ledger/ledger.ts";
import { quoteIdentifier } from "../ledger/schema.ts";
import { Ticks, type Timetable } from "./cron.ts";

/**
 * The timetable in force is kept in the ledger, as the state of a machine: while a deployment is under way,
 * old and new processes agree on it, and its history says since when a schedule ticks as it does.
 */
const machine = "onceward/schedule";
const never = "never";

/** The schedule in force, and the database's time: client clocks may be wrong. */
export async function current(
  ledger: Ledger,
  name: string,
): Promise<{ ticks: Ticks | undefined; now: Date }> {
  const [timetable, now] = await Promise.all([inForce(ledger, name), databaseNow(ledger)]);
  return { ticks: timetable === never ? undefined : new Ticks(JSON.parse(timetable) as Timetable), now };
}

/** Puts a timetable in force: what starts last has the last word. */
export async function putInForce(ledger: Ledger, name: string, timetable: Timetable): Promise<void> {
  const to = JSON.stringify({ cron: timetable.cron, timezone: timetable.timezone });
  for (;;) {
    const from = await inForce(ledger, name);
    if (from === to) return;
    const moved = await ledger.verbs.move({
      machine,
      subject: name,
      move: "define",
      from: [from],
      to,
      initial: never,
    });
    // Refused: somebody else changed it in between. Look again.
    if (moved.outcome === "moved") return;
  }
}

async function inForce(ledger: Ledger, name: string): Promise<string> {
  return (await ledger.verbs.machineState(machine, name))?.state ?? never;
}

async function databaseNow(ledger: Ledger): Promise<Date> {
  const text = `select to_jsonb(extract(epoch from ${quoteIdentifier(ledger.schema)}.now())::double precision) as now`;
  const { rows } = await ledger.database.query(text);
  return new Date(Number(rows[0]?.["now"]) * 1_000);
}
