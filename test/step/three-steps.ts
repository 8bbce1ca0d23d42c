/** A job of three steps: it calls the world, writes a row, and calls the world again. Run as a program: a worker for one task. */
import { pathToFileURL } from "node:url";
import { createOnce, fetchOnce, type JobTools, type Once, type Transaction } from "onceward";

export function threeSteps(once: Once, name: string, provider: string): void {
  once.job(name, async ({ input, step }: JobTools<string, Transaction>) => {
    const reserved = await step("reserve", async (tools) => {
      const answer = await fetchOnce(tools, `${provider}/reserve`, { method: "POST", body: input });
      return answer.text();
    });
    const row = await step.transaction("write", async (tx) => {
      await tx.query("insert into written (task) values ($1)", [input]);
      return input;
    });
    const charged = await step("charge", async (tools) => {
      const answer = await fetchOnce(tools, `${provider}/charge`, { method: "POST", body: input });
      return answer.text();
    });
    return [reserved, row, charged];
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [url, name, provider] = process.argv.slice(2) as [string, string, string];
  const ended = new Promise<void>((resolve, reject) => {
    const once = createOnce({
      database: url,
      onRan: (_, ran) => {
        if (ran.outcome === "done") once.stop().then(resolve, reject);
        else reject(new Error(`the task ended as ${ran.outcome}`));
      },
    });
    threeSteps(once, name, provider);
    once.start().catch(reject);
  });
  await ended;
}
