/** Two events that tell the same fact: the effect key lets it take effect once. */
import { connectSource } from "../../../src/handler/source.ts";
import type { Workload } from "../scene.ts";
import { backoff, startEngine, writeEffect } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";

export function twins(answer: "queued" | "inline"): Workload<Receiving> {
  return {
    name: `twin events with one effect key, ${answer}`,
    processes: ["A", "B"],
    // They wait for each other's locks, which only sessions of the real database can say.
    share: 0.4,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const receiver = connectSource(engine, shop(), { answer, waitMs: 200, backoff });
      receiver.on("order.paid", async ({ event, tx, once, ...task }) => {
        scene.started.push({ ...task, process: process.name });
        if (!(await once(`credit ${event.order}`))) return;
        await writeEffect(tx, `credit ${event.order}`, task);
      });
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver };
    },
    owes: () => ({ writes: ["credit ord_1"] }),
    actors: (scene) => ({
      "sender 1": () =>
        deliver(scene, { who: "sender 1", body: shopEvent("evt_1", "ord_1"), to: ["A", "B"] }),
      "sender 2": () =>
        deliver(scene, { who: "sender 2", body: shopEvent("evt_2", "ord_1"), to: ["B", "A"] }),
    }),
  };
}
