import { Agent, request } from "node:http";
import { OncewardError } from "../../errors.ts";
import { Failure } from "../fail.ts";
import type { StormEvent } from "./events.ts";

/** Signs as Stripe's own SDK does. */
export type Sign = (body: string) => string;

export async function stripeSigner(secret: string): Promise<Sign> {
  const { default: Stripe } = await import("stripe").catch(() => {
    throw new OncewardError(
      "driver_missing",
      "Signing like Stripe needs its package: run `npm install stripe`.",
    );
  });
  const { webhooks } = new Stripe("sk_test_only_for_signing");
  return (payload) => webhooks.generateTestHeaderString({ payload, secret });
}

/** One POST; the status, or 0 where no answer came. */
export type Send = (event: StormEvent) => Promise<number>;

export function sender(url: () => string, sign: Sign, connections: number): Send & { close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const send = (event: StormEvent): Promise<number> =>
    new Promise((resolve) => {
      const headers = {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(event.body),
        "stripe-signature": sign(event.body),
      };
      const post = request(url(), { method: "POST", agent, headers, timeout: 30_000 }, (answer) => {
        answer
          .resume()
          .on("end", () => resolve(answer.statusCode ?? 0))
          .on("error", () => resolve(0));
      });
      post.on("timeout", () => post.destroy()).on("error", () => resolve(0));
      post.end(event.body);
    });
  return Object.assign(send, { close: () => agent.destroy() });
}

/** How often a delivery is repeated until it is taken. Stripe goes on for three days; a storm has less patience. */
const patienceMs = 300_000;

/** Delivers until a 2xx, as a sender does, and counts every answer. */
export async function deliver(
  send: Send,
  event: StormEvent,
  answers: Map<number, number>,
  signal: AbortSignal,
): Promise<boolean> {
  const until = Date.now() + patienceMs;
  for (let pause = 25; ; pause = Math.min(pause * 2, 1_000)) {
    const status = await send(event);
    answers.set(status, (answers.get(status) ?? 0) + 1);
    if (status >= 200 && status < 300) return true;
    if (status === 400)
      throw new Failure(
        "The server refuses the signature: it has another STRIPE_WEBHOOK_SECRET than this command.",
      );
    if (status === 404)
      throw new Failure("The server has no such source: is it the one that `onceward serve` started?");
    if (signal.aborted || Date.now() > until) return false;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
