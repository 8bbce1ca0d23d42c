/** A worker in a process of its own, which tests stop, continue and kill. What happens in it is told to the parent. */
import { pgDatabase } from "../../src/database/pg.ts";
import { Engine } from "../../src/worker/engine.ts";
import { stopOnSignals } from "../../src/worker/signals.ts";
import type { ChildOptions, ChildWord } from "./process.ts";

const options = JSON.parse(process.argv[2] as string) as ChildOptions;
const say = (word: ChildWord): void => void process.send?.(word);
const go = new Promise<void>((resolve) => process.once("message", () => resolve()));

const database = pgDatabase(options.url, { max: 4 });
const engine = new Engine(database, {
  ...options.engine,
  onRan: ({ key, attempt }, { outcome }) => say({ word: "ran", key, attempt, outcome }),
});
engine.addLane({
  name: options.lane,
  async run({ key, attempt }, run) {
    say({ word: "start", key, attempt });
    if (options.hold) await go;
    if (options.workMs !== undefined) await new Promise((resolve) => setTimeout(resolve, options.workMs));
    if (options.confirm) {
      await run.confirm().catch((error: unknown) => {
        say({ word: "refused", key, attempt });
        throw error;
      });
    }
    say({ word: "effect", key, attempt });
    return { finish: "complete" };
  },
});

stopOnSignals(async () => {
  await engine.stop();
  await database.close();
  process.disconnect();
});
await engine.start();
say({ word: "ready" });
