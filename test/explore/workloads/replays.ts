/** Somebody replays an event, and somebody prunes, while it is delivered and run. */
import { connectSource } from "../../../src/handler/source.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import type { Rows } from "../rows.ts";
import type { Workload } from "../scene.ts";
import { backoff, startEngine, writeEffect } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";

interface App extends Receiving {
  readonly ledger: Ledger;
}

const task = { scope: "shop", key: "evt_1" };

export interface ReplaysOptions {
  /** A new generation of what is done. */
  readonly again: boolean;
  /** Payloads go as soon as their task is done; keys stay. */
  readonly prune: boolean;
}

export function replays({ again, prune }: ReplaysOptions): Workload<App> {
  return {
    name: `an event replayed${again ? " again" : ""}${prune ? " and pruned" : ""} in between`,
    processes: ["A", "B"],
    share: again ? 1.6 : 1.4,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const receiver = connectSource(engine, shop(), { answer: "queued", backoff });
      receiver.on("order.paid", async ({ event, tx, once, ...handled }) => {
        scene.started.push({ ...handled, process: process.name });
        await writeEffect(tx, `order ${event.order}`, handled);
        if (await once(`credit ${event.order}`)) await writeEffect(tx, `credit ${event.order}`, handled);
      });
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver, ledger: engine.ledger };
    },
    actors: (scene) => ({
      "sender 1": () =>
        deliver(scene, { who: "sender 1", body: shopEvent("evt_1", "ord_1"), to: ["A", "B"] }),
      operator: () =>
        scene.callAny("operator", again ? "replays evt_1 again" : "replays evt_1", ["B", "A"], ({ ledger }) =>
          ledger.verbs.replay([task], { again }).then(
            () => undefined,
            () => undefined,
          ),
        ),
      ...(prune && {
        janitor: () =>
          scene.callAny("janitor", "prunes payloads", ["A", "B"], ({ ledger }) =>
            ledger.verbs.prune({ what: "payloads", olderThanMs: 0 }).then(
              () => undefined,
              () => undefined,
            ),
          ),
      }),
      "sender 2": () =>
        deliver(scene, { who: "sender 2", body: shopEvent("evt_1", "ord_1"), to: ["B", "A"] }),
    }),
    owes: () => ({ writes: ["order ord_1", "credit ord_1"] }),
    // Once a generation; the effect key holds over all of them.
    repeats: (rows, name) => (name.startsWith("order") ? generations(rows) : 1),
  };
}

function generations(rows: Rows): number {
  return Number(rows.of("onceward.task").find(({ key }) => key === task.key)?.["generation"] ?? 1);
}
