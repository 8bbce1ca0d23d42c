/** Events that come at once to two processes, whose handler takes several of them in one transaction. */
import { connectSource } from "../../../src/handler/source.ts";
import { defineJob } from "../../../src/job/define.ts";
import type { Workload } from "../scene.ts";
import { backoff, startEngine, writeEffect } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";

const orders = ["ord_1", "ord_2", "ord_3"];
const failing = "ord_2";

export function together(): Workload<Receiving> {
  return {
    name: "three events of which two processes handle several together",
    processes: ["A", "B"],
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const pack = defineJob(engine, "pack", { backoff }, () => undefined);
      const receiver = connectSource(engine, shop(), { answer: "queued", backoff });
      receiver.on("order.paid", { together: 10 }, async ({ events, tx }) => {
        for (const { event, enqueue, ...task } of events) {
          scene.started.push({ ...task, process: process.name });
          await writeEffect(tx, `order ${event.order}`, task);
          await enqueue(pack, undefined, { key: event.order });
          if (event.order === failing && task.attempt === 1) throw new Error("it fails, and all with it");
        }
      });
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver };
    },
    owes: ({ scope, key }) => ({
      writes: scope === "shop" ? [`order ${String(key).replace("evt", "ord")}`] : [],
    }),
    actors: (scene) =>
      Object.fromEntries(
        orders.map((order, i) => {
          const who = `sender ${i + 1}`;
          const body = shopEvent(order.replace("ord", "evt"), order);
          return [who, () => deliver(scene, { who, body, to: ["A", "B"] })];
        }),
      ),
  };
}
