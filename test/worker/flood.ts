/**
 * Runs empty jobs in this process as fast as it can and says what that takes, one line of JSON a round:
 *   node --expose-gc --import jiti/register test/worker/flood.ts <database url> <jobs> <rounds>
 */
import { pgDatabase } from "../../src/database/pg.ts";
import { defineJob } from "../../src/job/define.ts";
import { enqueue } from "../../src/job/enqueue.ts";
import { Engine } from "../../src/worker/engine.ts";

export interface Round {
  readonly jobs: number;
  readonly perSecond: number;
  /** CPU of this process for one job, in µs. */
  readonly cpu: number;
  /** Bytes in use after a full collection. */
  readonly heap: number;
  readonly rss: number;
}

const [url = "", jobs = "200000", rounds = "10"] = process.argv.slice(2);
const callers = 64;
const input = { text: "x".repeat(3_000) };

let ended = 0;
let whenEnded: (() => void) | undefined;
const database = pgDatabase(url);
const engine = new Engine(database, {
  onRan(_task, ran) {
    if (ran.outcome !== "done") throw new Error(`a job ended as ${ran.outcome}`);
    ended++;
    whenEnded?.();
  },
  onError(error) {
    console.error(error);
    process.exitCode = 1;
  },
});
const job = defineJob(engine, "empty", () => undefined);
await engine.start();

const each = Math.floor(Number(jobs) / Number(rounds) / callers);
for (let round = 1; round <= Number(rounds); round++) {
  const began = performance.now();
  const cpu = process.cpuUsage();
  const call = async (): Promise<void> => {
    for (let i = 0; i < each; i++) await enqueue(engine, job, input);
  };
  await Promise.all(Array.from({ length: callers }, call));
  await new Promise<void>((resolve) => {
    whenEnded = () => {
      if (ended >= round * each * callers) resolve();
    };
    whenEnded();
  });
  const seconds = (performance.now() - began) / 1_000;
  const used = process.cpuUsage(cpu);
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  const count = each * callers;
  const report: Round = {
    jobs: count,
    perSecond: Math.round(count / seconds),
    cpu: Math.round((used.user + used.system) / count),
    heap: heapUsed,
    rss,
  };
  console.log(JSON.stringify(report));
}
await engine.stop();
await database.close();
