/** An event that comes several times to two processes; its handler writes a row and enqueues a job. */
import { connectSource } from "../../../src/handler/source.ts";
import { defineJob } from "../../../src/job/define.ts";
import type { JobTools } from "../../../src/job/job.ts";
import type { Scene, Workload } from "../scene.ts";
import type { Session } from "../process.ts";
import { backoff, startEngine, writeEffect } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";

export interface EventsOptions {
  readonly answer: "queued" | "inline";
  readonly processes: readonly string[];
  readonly deliveries: number;
}

export function events({ answer, processes, deliveries }: EventsOptions): Workload<Receiving> {
  return {
    name: `an event delivered ${deliveries} times to ${processes.length} processes, ${answer}`,
    processes,
    share: processes.length > 2 ? 1.6 : answer === "inline" ? 0.9 : 1.1,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const mailer = scene.provider("mailer", { honoursKeys: true });
      const mail = defineJob(
        engine,
        "mail",
        { backoff },
        async ({ input, step }: JobTools<string, Session>) => {
          await step("send", ({ key }) => mailer.send(key, `mail ${input}`));
        },
      );
      const receiver = connectSource(engine, shop(), { answer, waitMs: 500, backoff });
      receiver.on("order.paid", async ({ event, tx, enqueue, ...task }) => {
        scene.started.push({ ...task, process: process.name });
        await writeEffect(tx, `order ${event.order}`, task);
        await enqueue(mail, event.order, { key: event.order });
      });
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver };
    },
    owes: (task) => ({
      writes: task["scope"] === "shop" ? ["order ord_1"] : [],
      calls: task["scope"] === "job/mail" ? [["mailer", "mail ord_1"]] : [],
    }),
    actors: (scene: Scene<Receiving>) =>
      Object.fromEntries(
        Array.from({ length: deliveries }, (_, i) => {
          const to = [...processes.slice(i % processes.length), ...processes.slice(0, i % processes.length)];
          const who = `sender ${i + 1}`;
          return [who, () => deliver(scene, { who, body: shopEvent("evt_1", "ord_1"), to })];
        }),
      ),
  };
}
