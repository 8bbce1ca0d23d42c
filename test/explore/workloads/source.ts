/** A sender of events, and a source that believes it: signatures are not what is explored here. */
import { createHash } from "node:crypto";
import type { Receiver } from "../../../src/receive/delivery.ts";
import type { Source } from "../../../src/source/source.ts";
import { type Delivery, Down, personal, type Scene } from "../scene.ts";

export interface ShopEvent {
  readonly id: string;
  readonly type: string;
  readonly order: string;
  /** Personal data, which must not be seen outside of the payload. */
  readonly card: string;
}

export function shop(): Source<Record<string, ShopEvent>> {
  const parse = (body: Uint8Array): ShopEvent => JSON.parse(Buffer.from(body).toString()) as ShopEvent;
  return {
    name: "shop",
    verify: () => undefined,
    identify({ body }) {
      const { id, type, order } = parse(body);
      const fingerprint = createHash("sha256").update(body).digest("hex").slice(0, 16);
      return { id, type, objectId: order, fingerprint };
    },
    parse,
  };
}

export function shopEvent(id: string, order: string, type = "order.paid"): string {
  return JSON.stringify({ id, type, order, card: personal } satisfies ShopEvent);
}

export interface Receiving {
  readonly receiver: Receiver;
}

export interface Delivering {
  readonly who: string;
  readonly body: string;
  /** What the ledger knows it as; left out: its id. */
  readonly key?: string;
  /** Tried one after the other. */
  readonly to: readonly string[];
}

/** A sender tries again after so long, and gives up after so many times. */
const retryMs = 20_000;
const mostTries = 12;

/** Delivers until any delivery of the event got its 2xx, as senders do. */
export async function deliver(scene: Scene<Receiving>, { who, body, key, to }: Delivering): Promise<void> {
  const { id } = JSON.parse(body) as ShopEvent;
  for (let i = 0; i < mostTries; i++) {
    const process = to[i % to.length]!;
    const delivery: Delivery = { event: id, task: { scope: "shop", key: key ?? id }, body, to: process };
    scene.deliveries.push(delivery);
    try {
      const answer = await scene.call(who, `delivers ${id}`, process, ({ receiver }) =>
        receiver.receive({ method: "POST", header: () => undefined, body: Buffer.from(body) }),
      );
      delivery.status = answer.status;
      delivery.answer = answer.body;
      if (answer.status < 300) return;
    } catch (error) {
      if (!(error instanceof Down)) throw error;
    }
    await scene.sleep(retryMs);
    if (scene.deliveries.some(({ event, status = 500 }) => event === id && status < 300)) return;
  }
}
