/** A receiver that answers with what it got, and keeps it. */
import { createHash } from "node:crypto";
import { answer } from "../../../src/receive/answer.ts";
import type { Answer, Delivery, Receiver } from "../../../src/receive/delivery.ts";

/** Large enough that a full body comes in several chunks. */
export const maxBytes = 256 * 1024;

export interface Echo extends Receiver {
  readonly received: Delivery[];
  /** Set it to answer something else, or to throw. */
  reply: (delivery: Delivery) => Answer | Promise<Answer>;
}

export function echo(): Echo {
  const receiver: Echo = {
    maxBytes,
    received: [],
    reply: ({ method, body }) => answer(200, { method, sha256: sha256(body) }),
    receive: (delivery) => {
      receiver.received.push(delivery);
      // Not async on purpose: a receiver may throw before it has a promise to reject.
      const replied = receiver.reply(delivery);
      return replied instanceof Promise ? replied : Promise.resolve(replied);
    },
  };
  return receiver;
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
