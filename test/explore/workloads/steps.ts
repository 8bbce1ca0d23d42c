/** A job of three steps, the middle one of which calls a provider outside. */
import { defineJob } from "../../../src/job/define.ts";
import { enqueue } from "../../../src/job/enqueue.ts";
import type { JobTools } from "../../../src/job/job.ts";
import type { StepOptions } from "../../../src/step/step.ts";
import type { Session } from "../process.ts";
import type { Workload } from "../scene.ts";
import { backoff, startEngine, untilDone, writeEffect } from "./engine.ts";

export interface StepsOptions {
  /** What the step that charges does when nobody knows whether it took effect. */
  readonly unknown: "retry" | "never" | "verify";
  readonly honoursKeys: boolean;
}

interface App {
  enqueue(): Promise<unknown>;
}

export function steps({ unknown, honoursKeys }: StepsOptions): Workload<App> {
  return {
    name: `a job of three steps, ${unknown}, ${honoursKeys ? "keys honoured" : "no keys"}`,
    processes: ["A", "B"],
    share: 0.75,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const bank = scene.provider("bank", { honoursKeys, repeats: unknown === "retry" ? "any" : "once" });
      const policy: StepOptions<string> = {
        unknown: unknown === "verify" ? { verify: (key) => verdict(bank.look(key)) } : unknown,
      };
      const job = defineJob(
        engine,
        "order",
        { backoff },
        async ({ step, key, attempt }: JobTools<string, Session>) => {
          scene.started.push({ scope: "job/order", key, attempt, process: process.name });
          const price = await step("price", () => 100);
          await step("charge", policy, (tools) => bank.send(tools.key, `charge ${price}`));
          await step.transaction("book", (tx) =>
            writeEffect(tx, "booked", { scope: "job/order", key, attempt }),
          );
        },
      );
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { enqueue: () => enqueue(engine, job, "ord_1", { key: "ord_1" }) };
    },
    actors: (scene) => ({
      shop: () =>
        untilDone(() => scene.callAny("shop", "enqueues ord_1", ["A", "B"], (app) => app.enqueue())),
    }),
    owes: () => ({ writes: ["booked"], calls: [["bank", "charge 100"]] }),
  };
}

async function verdict(done: Promise<boolean>): Promise<{ done: true; value: string } | { done: false }> {
  return (await done) ? { done: true, value: "receipt of charge 100" } : { done: false };
}
