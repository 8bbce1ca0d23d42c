/**
 * A server in a process of its own, which tests kill. It dies by itself where an event tells it to, the first
 * time it meets it: on arrival, in the handler before or after it wrote, or before the answer is sent.
 */
import type { Receiver } from "../../src/receive/delivery.ts";
import { effect, openApp } from "../handler/support.ts";
import { listen } from "./http.ts";

export type DeathPoint = "on arrival" | "before it writes" | "after it wrote" | "before the answer";

export interface Order {
  readonly url: string;
  readonly answer: "queued" | "inline";
}

process.once("message", (order: Order) => void serve(order));
process.once("disconnect", () => process.exit());

async function serve({ url, answer }: Order): Promise<void> {
  // Short, so that what a killed process held comes back soon.
  const app = await openApp(url, { leaseMs: 500, source: { answer } });
  app.billing.on("invoice.paid", async ({ event, tx, attempt }) => {
    const { die } = event.data.object as { die?: DeathPoint };
    if (die === "before it writes" && attempt === 1) end();
    await effect(tx, event.id);
    if (die === "after it wrote" && attempt === 1) end();
  });
  await app.engine.start();
  const { port } = await listen(mortal(app.billing));
  process.send?.(port);
}

/** Dies around a request; the first delivery of an event tells by a header field of its own. */
function mortal(receiver: Receiver): Receiver {
  return {
    maxBytes: receiver.maxBytes,
    async receive(delivery) {
      const die = delivery.header("x-die");
      if (die === "on arrival") end();
      const answer = await receiver.receive(delivery);
      if (die === "before the answer") end();
      return answer;
    },
  };
}

function end(): void {
  process.kill(process.pid, "SIGKILL");
}
