/** An action that two callers in two processes take at once, with the same key. */
import { runAction } from "../../../src/action/run.ts";
import { OncewardError } from "../../../src/errors.ts";
import type { Workload } from "../scene.ts";
import { startEngine } from "./engine.ts";

interface App {
  charge(): Promise<string>;
}

/** Who waits longer looks more often, which makes schedules longer and nothing else. */
const patienceMs = 50;

export function actions(honoursKeys: boolean): Workload<App> {
  return {
    name: `an action taken by two callers, ${honoursKeys ? "keys honoured" : "never repeated"}`,
    processes: ["A", "B"],
    share: 0.85,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const bank = scene.provider("bank", { honoursKeys });
      return {
        charge: () =>
          runAction(
            engine,
            "charge ord_1",
            async ({ step, key, attempt }) => {
              scene.started.push({ scope: "action", key, attempt, process: process.name });
              const unknown = honoursKeys ? "retry" : "never";
              return step("charge", { unknown }, (tools) => bank.send(tools.key, "charge ord_1"));
            },
            { wait: patienceMs },
          ),
      };
    },
    actors: (scene) => {
      const caller = (who: string, to: readonly string[]) => async () => {
        for (let tries = 0; tries < 8; tries++) {
          try {
            const receipt = await scene.callAny(who, "charges ord_1", to, (app) => app.charge());
            if (receipt !== "receipt of charge ord_1") throw new Error(`${who} got ${receipt}`);
            return;
          } catch (error) {
            // Nobody knows whether it took place: the caller is told so, and must not try again.
            if (error instanceof OncewardError && error.code === "outcome_unknown") return;
            if (!(error instanceof OncewardError && error.retry)) scene.said.push(String(error));
            await scene.sleep(20_000);
          }
        }
      };
      return { "caller 1": caller("caller 1", ["A", "B"]), "caller 2": caller("caller 2", ["B", "A"]) };
    },
    owes: () => ({ calls: [["bank", "charge ord_1"]] }),
    // Nobody but a caller runs an action: one that its callers gave up on stays as it is.
    settled: () => true,
  };
}
