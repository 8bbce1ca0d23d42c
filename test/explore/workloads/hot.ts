/** A hot key beside others: one that is stuck, that fails for ever, or whose lane lets few of its tasks run. */
import { defineJob } from "../../../src/job/define.ts";
import { enqueue } from "../../../src/job/enqueue.ts";
import type { Job, JobOptions, JobTools } from "../../../src/job/job.ts";
import type { Session } from "../process.ts";
import type { Workload } from "../scene.ts";
import { backoff, startEngine, untilDone } from "./engine.ts";

interface App {
  enqueue(key: string): Promise<unknown>;
}

export interface Heat {
  readonly name: string;
  /** Of the job whose tasks are hot. */
  readonly options?: Pick<JobOptions<string>, "serial" | "concurrency" | "rate">;
  /** What a hot task does. */
  run(): Promise<void>;
  /** So many of them, enqueued before the others. */
  readonly tasks: number;
  /** One of the same job that is not hot. */
  readonly beside?: "beside";
  readonly processes?: readonly string[];
  /** Places of each process. */
  readonly concurrency?: number;
}

/** No answer ever comes. */
const stuck = (): Promise<never> => new Promise(() => {});

const isHot = (key: string): boolean => key.startsWith("hot ");

/** More than a process has places for, so that those behind them are found only by who looks further. */
const many = { tasks: 3, beside: "beside", concurrency: 2 } as const;

export const heats: readonly Heat[] = [
  {
    name: "the first of a serial group",
    options: { serial: (key) => (isHot(key) ? "group" : undefined) },
    run: stuck,
    ...many,
  },
  {
    name: "the only one of its key that may run",
    options: { concurrency: { perKey: { key: (key) => (isHot(key) ? "hot" : key), limit: 1 } } },
    run: stuck,
    ...many,
  },
  {
    name: "the only one that its lane lets run",
    options: { concurrency: { total: 1 } },
    run: stuck,
    tasks: 2,
  },
  {
    name: "a lane of one start an hour",
    options: { rate: { limit: 1, per: "1 hour" } },
    run: async () => {},
    tasks: 2,
  },
  { name: "as many stuck tasks as places", run: stuck, tasks: 4, processes: ["A"], concurrency: 4 },
  {
    name: "a task that fails for ever",
    run: () => Promise.reject(new Error("not today")),
    tasks: 1,
    beside: "beside",
  },
];

export function hot(heat: Heat): Workload<App> {
  const { name, options, run, tasks, beside, processes = ["A", "B"], concurrency } = heat;
  return {
    name: `a hot key: ${name}`,
    processes,
    share: 0.2,
    hot: ({ key }) => isHot(key!),
    boot(process, scene) {
      const engine = startEngine(process, scene, { concurrency });
      const api = scene.provider("api", { honoursKeys: true });
      const job = (jobName: string, more: Heat["options"]): Job<string> =>
        defineJob(
          engine,
          jobName,
          { backoff, ...more },
          async ({ key, attempt, step }: JobTools<string, Session>) => {
            scene.started.push({ scope: `job/${jobName}`, key, attempt, process: process.name });
            if (isHot(key)) await run();
            else await step("call", (tools) => api.send(tools.key, key));
          },
        );
      const hotJob = job("hot", options);
      const other = job("other", {});
      engine.start().catch((error: unknown) => scene.said.push(String(error)));
      return { enqueue: (key) => enqueue(engine, key === "other" ? other : hotJob, key, { key }) };
    },
    actors: (scene) => ({
      shop: async () => {
        const keys = Array.from({ length: tasks }, (_, i) => `hot ${i + 1}`);
        for (const key of [...keys, ...(beside ? [beside] : []), "other"]) {
          await untilDone(() =>
            scene.callAny("shop", `enqueues ${key}`, processes, (app) => app.enqueue(key)),
          );
        }
      },
    }),
    owes: ({ key }) => ({ calls: isHot(key!) ? [] : [["api", key!]] }),
  };
}
