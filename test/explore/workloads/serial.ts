/** Two tasks of one serial group, one that belongs to none, and workers in two processes. */
import type { Lane } from "../../../src/worker/lane.ts";
import type { End, Violation, Workload } from "../scene.ts";
import { backoff, startEngine } from "./engine.ts";

interface App {
  enqueue(): Promise<unknown>;
}

const scope = "job/sync";

export function serial(processes: readonly string[]): Workload<App> {
  return {
    name: `a serial group of two tasks, ${processes.length} workers`,
    processes,
    share: 1.35,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const api = scene.provider("api", { honoursKeys: false, repeats: "any" });
      const lane: Lane = {
        name: scope,
        backoff,
        async run({ key, attempt }, run) {
          scene.started.push({ scope, key, attempt, process: process.name });
          await api.send(key, `${key} begins`);
          await run.confirm();
          await api.send(key, `${key} ends`);
          return { finish: "complete" };
        },
      };
      engine.addLane(lane);
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return {
        async enqueue() {
          // In one statement: recorded together, in this order.
          await engine.ledger.verbs.record([
            { scope, key: "1st", serial: "object" },
            { scope, key: "2nd", serial: "object" },
            { scope, key: "other" },
          ]);
        },
      };
    },
    actors: (scene) => ({
      shop: async () => {
        await scene.callAny("shop", "enqueues three tasks", processes, (app) =>
          app.enqueue().catch(() => undefined),
        );
      },
    }),
    check: inOrder,
  };
}

/** The second begins only after the first has ended, whatever attempt of it that was. */
function inOrder({ providers, rows }: End): Violation[] {
  const calls = providers.get("api")?.calls ?? [];
  const firstOfSecond = calls.findIndex(({ what }) => what === "2nd begins");
  const firstDone = calls.findIndex(({ what }) => what === "1st ends");
  const done = rows.of("onceward.task").filter((task) => task["state"] === "done").length;
  return [
    ...(firstOfSecond >= 0 && (firstDone < 0 || firstDone > firstOfSecond)
      ? [{ invariant: "I2", what: "the second of a serial group began before the first had ended" }]
      : []),
    ...(done === rows.of("onceward.task").length
      ? []
      : [{ invariant: "I10", what: "a task is left behind" }]),
  ];
}
