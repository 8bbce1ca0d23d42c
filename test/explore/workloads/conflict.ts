/** One event id with two contents. Which comes first is run; the other is flagged. */
import { connectSource } from "../../../src/handler/source.ts";
import type { End, Violation, Workload } from "../scene.ts";
import { backoff, startEngine, writeEffect } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";

export function conflict(answer: "queued" | "inline"): Workload<Receiving> {
  return {
    name: `one event id with two contents, ${answer}`,
    processes: ["A", "B"],
    share: 0.5,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const receiver = connectSource(engine, shop(), { answer, waitMs: 200, backoff });
      receiver.on("order.paid", async ({ event, tx, ...task }) => {
        scene.started.push({ ...task, process: process.name });
        await writeEffect(tx, `order ${event.order}`, task);
      });
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver };
    },
    actors: (scene) => ({
      "sender 1": () =>
        deliver(scene, { who: "sender 1", body: shopEvent("evt_1", "ord_1"), to: ["A", "B"] }),
      "sender 2": () =>
        deliver(scene, { who: "sender 2", body: shopEvent("evt_1", "ord_2"), to: ["B", "A"] }),
    }),
    check: onlyOne,
  };
}

function onlyOne({ rows }: End): Violation[] {
  const written = rows.of("app.effect").map((row) => row["name"]);
  return written.length === 1
    ? []
    : [{ invariant: "I7", what: `both contents were run: ${written.join(", ")}` }];
}
