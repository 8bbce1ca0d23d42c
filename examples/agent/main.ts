/**
 * Runs the agent, once for each run that is named:
 *
 *   npx jiti examples/agent/main.ts run-1
 *
 * Run it again, or kill it and run it again: each run sends one mail. DATABASE_URL names a Postgres (else one
 * is embedded in ./.onceward/db), API_URL and SMTP_URL the world outside (else a small one is started).
 */
import { createOnce } from "onceward";
import { reachOut } from "./agent.ts";
import { startWorld } from "./world.ts";

const runs = process.argv.slice(2);
const { API_URL: api, SMTP_URL: smtp, DATABASE_URL: database } = process.env;
const started = api && smtp ? undefined : await startWorld();
const world = started ?? { api: api!, smtp: smtp! };
const once = createOnce({ database });

await Promise.all(
  (runs.length > 0 ? runs : ["run-1"]).map(async (run) => {
    const messageId = await reachOut(once, world, run);
    process.stdout.write(`${run} ${messageId}\n`);
  }),
);
await once.stop();
await started?.close();
