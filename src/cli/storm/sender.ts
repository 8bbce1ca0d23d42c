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

export interface Answered {
  /** 0 where no answer came. */
  readonly status: number;
  /** The stable code of an error. */
  readonly code?: string | undefined;
}

/** One POST. */
export type Send = (event: StormEvent) => Promise<Answered>;

const unanswered: Answered = { status: 0 };

/** `url` says where to; nowhere while the server is down. */
export function sender(
  url: () => string | undefined,
  sign: Sign,
  connections: number,
): Send & { close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const send = (event: StormEvent): Promise<Answered> =>
    new Promise((resolve) => {
      const to = url();
      if (!to) return resolve(unanswered);
      const headers = {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(event.body),
        "stripe-signature": sign(event.body),
      };
      const post = request(to, { method: "POST", agent, headers, timeout: 30_000 }, (answer) => {
        let said = "";
        answer
          .on("data", (chunk: Buffer) => void (said.length < 10_000 && (said += chunk.toString())))
          .on("end", () => resolve(answered(answer.statusCode ?? 0, said)))
          .on("error", () => resolve(unanswered));
      });
      post.on("timeout", () => post.destroy()).on("error", () => resolve(unanswered));
      post.end(event.body);
    });
  return Object.assign(send, { close: () => agent.destroy() });
}

function answered(status: number, said: string): Answered {
  if (status < 300) return { status };
  const code = /^\{"error":\{"code":"(\w+)"/.exec(said)?.[1];
  return { status, code };
}

/** What is probably wrong where the server takes no signature of ours. */
export function hintAt(code: string | undefined): string {
  return code?.startsWith("signature_")
    ? "It has another STRIPE_WEBHOOK_SECRET than this command: set the same here, or start both in one folder."
    : "";
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
    const { status, code } = await send(event);
    answers.set(status, (answers.get(status) ?? 0) + 1);
    if (status >= 200 && status < 300) return true;
    if (status === 400)
      throw new Failure(`The server refuses it with ${code ?? 400}. ${hintAt(code)}`.trim());
    if (status === 404)
      throw new Failure("The server has no such source: is it the one that `onceward serve` started?");
    if (signal.aborted || Date.now() > until) return false;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
