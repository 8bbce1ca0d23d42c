/** A job that fails twice, another that always fails, and one that kills its process each time. */
import { defineJob } from "../../../src/job/define.ts";
import { enqueue } from "../../../src/job/enqueue.ts";
import type { JobTools } from "../../../src/job/job.ts";
import { Down, type End, type Violation, type Workload } from "../scene.ts";
import type { Session } from "../process.ts";
import { backoff, startEngine } from "./engine.ts";

interface App {
  enqueue(key: string): Promise<unknown>;
}

const maxAttempts = 3;

export function failing(): Workload<App> {
  return {
    name: "jobs that fail: one recovers, one is dead in the end",
    processes: ["A", "B"],
    share: 1.3,
    boot(process, scene) {
      const engine = startEngine(process, scene);
      const mailer = scene.provider("mailer", { honoursKeys: true });
      const options = { backoff, maxAttempts };
      const job = defineJob(
        engine,
        "flaky",
        options,
        async ({ input, step, key, attempt }: JobTools<string, Session>) => {
          scene.started.push({ scope: "job/flaky", key, attempt, process: process.name });
          await step("mail", (tools) => mailer.send(tools.key, `mail ${input}`));
          if (input === "always" || attempt === 1) throw new Error("not yet");
        },
      );
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { enqueue: (key) => enqueue(engine, job, key, { key }) };
    },
    actors: (scene) => ({
      shop: async () => {
        for (const key of ["once", "always"]) {
          for (let tries = 0; tries < 4; tries++) {
            const done = await scene
              .call("shop", `enqueues ${key}`, tries % 2 === 0 ? "A" : "B", (app) => app.enqueue(key))
              .catch((error: unknown) => (error instanceof Down ? undefined : undefined));
            if (done) break;
            await scene.sleep(6_000);
          }
        }
      },
    }),
    owes: (task) => ({ calls: [["mailer", `mail ${task["key"]}`]] }),
    check: bounded,
  };
}

/** At most as many runs as attempts are allowed; who used them up is dead, and says why. */
function bounded({ started, rows }: End): Violation[] {
  return rows.of("onceward.task").flatMap((task) => {
    const runs = started.filter(({ key }) => key === task["key"]).length;
    return [
      ...(runs > maxAttempts ? [{ invariant: "I6", what: `${task["key"]} ran ${runs} times` }] : []),
      ...(task["key"] === "always" && task["state"] !== "dead"
        ? [{ invariant: "I6", what: `${task["key"]} always fails, and is ${task["state"]}` }]
        : []),
    ];
  });
}
