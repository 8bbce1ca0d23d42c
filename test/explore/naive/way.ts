/** How many applications take events in, each way with its hole. Kept to show that the explorer finds holes. */
import type { Process } from "../process.ts";
import type { Delivery, End, Fault, Scene, Violation, Workload } from "../scene.ts";
import type { Provider } from "../world.ts";

interface Db {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{ readonly rows: Record<string, unknown>[]; readonly rowCount: number | null }>;
}

export interface Tools {
  readonly db: Db;
  readonly mailer: Provider;
  readonly event: string;
  /** Milliseconds, by the process's own clock. */
  readonly now: number;
}

export interface NaiveWay {
  readonly name: string;
  /** What may go wrong; more would show other holes, too. */
  readonly faults: readonly Fault[];
  /** Takes an event in, and returns the status of the answer. */
  receive(tools: Tools): Promise<number>;
}

interface App {
  receive(event: string): Promise<number>;
}

/** Whoever started longer ago is taken to be dead, where a way cares at all. */
export const staleMs = 60_000;

/** One event comes twice, to two processes, which write one row for it or send one mail, and must do so once. */
export function naively(way: NaiveWay): Workload<App> {
  return {
    name: way.name,
    faults: way.faults,
    processes: ["A", "B"],
    boot(process: Process, scene: Scene<App>): App {
      const mailer = scene.provider("mailer", { honoursKeys: false });
      return {
        async receive(event) {
          const db = await process.pool().connect();
          try {
            return await way.receive({ db, mailer, event, now: Date.now() });
          } finally {
            db.release();
          }
        },
      };
    },
    actors: (scene) => ({
      "delivery 1": () => deliver(scene, "delivery 1", ["A", "B"]),
      "delivery 2": () => deliver(scene, "delivery 2", ["B", "A"]),
    }),
    settled: () => true,
    check: holes,
  };
}

/** A sender stops as soon as any delivery of the event got its 2xx. */
async function deliver(scene: Scene<App>, who: string, to: readonly string[]): Promise<void> {
  for (let tries = 0; tries < 4; tries++) {
    const process = to[tries % to.length]!;
    const delivery: Delivery = { event: "evt_1", body: "evt_1", to: process };
    scene.deliveries.push(delivery);
    try {
      delivery.status = await scene.call(who, "of evt_1", process, (app) => app.receive("evt_1"));
    } catch {
      // A 500, or no answer at all.
    }
    await scene.sleep(2 * staleMs);
    if (scene.deliveries.some(({ status = 500 }) => status < 300)) return;
  }
}

function holes({ rows, providers, deliveries }: End): Violation[] {
  const written = rows.of("app.effect").length;
  const mails = providers.get("mailer")?.effects("mail for evt_1") ?? 0;
  const isAcknowledged = deliveries.some(({ status }) => status === 200);
  return [
    ...(isAcknowledged && written + mails === 0
      ? [{ invariant: "I1", what: "evt_1 was answered with 200 and never handled" }]
      : []),
    ...(written > 1 ? [{ invariant: "I2", what: `evt_1 was handled ${written} times` }] : []),
    ...(mails > 1 ? [{ invariant: "I3", what: `${mails} mails were sent for evt_1` }] : []),
  ];
}
