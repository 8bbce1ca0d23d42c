/**
 * A payment fails, is made up for, and fails again; events or jobs move the subscription, each in its transaction. The
 * timer that cancels what stays unpaid is due at the very moment at which the payment comes.
 */
import { connectSource } from "../../../src/handler/source.ts";
import { defineJob } from "../../../src/job/define.ts";
import { enqueue } from "../../../src/job/enqueue.ts";
import type { JobTools } from "../../../src/job/job.ts";
import type { Verbs } from "../../../src/ledger/verbs.ts";
import type { Session } from "../process.ts";
import type { Fault, Scene, Workload } from "../scene.ts";
import { backoff, startEngine, untilDone } from "./engine.ts";
import { deliver, type Receiving, shop, shopEvent } from "./source.ts";
import { defineSubscription, moveBy, movesAreSound, unpaidMs } from "./subscription.ts";

export interface MovesOptions {
  readonly by: "events" | "jobs";
  /** The verbs of a transaction, for the broken ways in naive/. */
  readonly within?: (verbs: Verbs) => Verbs;
  /** Left out: all of them. */
  readonly faults?: readonly Fault[];
}

interface App extends Receiving {
  enqueue(fact: string, move: "fail" | "pay"): Promise<unknown>;
}

export function moves({ by, within, faults }: MovesOptions): Workload<App> {
  return {
    name: `a subject moved by ${by} and by its timer`,
    processes: ["A", "B"],
    // They are long, and what they wait for are locks.
    share: 0.3,
    ...(faults && { faults }),
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const { ledger } = engine;
      if (within) ledger.within = (transaction) => within(ledger.verbs.within(transaction));
      const mailer = scene.provider("mailer", { honoursKeys: true });
      const goodbye = defineJob(engine, "goodbye", { backoff }, ({ step }: JobTools<string, Session>) =>
        step("mail", ({ key }) => mailer.send(key, "goodbye")),
      );
      const machine = defineSubscription(engine, goodbye);
      const receiver = connectSource(engine, shop(), { answer: "queued", backoff });
      for (const move of ["fail", "pay"] as const) {
        receiver.on(move, async ({ tx, scope, key, attempt }) => {
          scene.started.push({ scope, key, attempt, process: process.name });
          await moveBy(machine, move, { tx, task: { scope, key, attempt } });
        });
      }
      const charge = defineJob(
        engine,
        "charge",
        { backoff },
        async ({ input, step, key, attempt }: JobTools<"fail" | "pay", Session>) => {
          const task = { scope: "job/charge", key, attempt };
          scene.started.push({ ...task, process: process.name });
          await step.transaction("move", (tx) => moveBy(machine, input, { tx, task }));
        },
      );
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { receiver, enqueue: (fact, move) => enqueue(engine, charge, move, { key: fact }) };
    },
    actors: (scene) => ({
      "bank 1": async () => {
        await tell(scene, by, { who: "bank 1", fact: "fact_1", move: "fail" });
        await scene.sleep(unpaidMs);
        await tell(scene, by, { who: "bank 1", fact: "fact_2", move: "pay" });
      },
      "bank 2": async () => {
        await scene.sleep(unpaidMs + 2);
        await tell(scene, by, { who: "bank 2", fact: "fact_3", move: "fail" });
      },
    }),
    check: movesAreSound,
  };
}

interface Fact {
  readonly who: string;
  readonly fact: string;
  readonly move: "fail" | "pay";
}

async function tell(scene: Scene<App>, by: MovesOptions["by"], { who, fact, move }: Fact): Promise<void> {
  const to = ["A", "B"];
  if (by === "events") return deliver(scene, { who, body: shopEvent(fact, "ord_1", move), to });
  return untilDone(() => scene.callAny(who, `enqueues ${fact}`, to, (app) => app.enqueue(fact, move)));
}
