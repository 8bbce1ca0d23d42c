/** The payload of every measurement: a real Stripe event of 3.4 KB, under a new id each time. */
import { createHmac, createSecretKey } from "node:crypto";
import { readFileSync } from "node:fs";

/** One that may happen often to one object, so that a new id alone makes it a new event. */
const TYPE = "charge.succeeded";

const fixtures = new URL("../test/fixtures/stripe-events.ndjson", import.meta.url);
const line = readFileSync(fixtures, "utf8")
  .split("\n")
  .find((one) => one.includes(`"type":"${TYPE}"`));
if (!line) throw new Error(`no ${TYPE} among the fixtures`);

const original = JSON.parse(line) as { id: string; created: number };
// From now, as deliveries are: of an old event the ledger also asks whether keys from its time were pruned.
const recent = JSON.stringify({ ...original, created: Math.floor(Date.now() / 1000) });
const [before, after] = recent.split(original.id) as [string, string];

/** The secret of the endpoint under test. */
export const secret = "whsec_bench";
const key = createSecretKey(Buffer.from(secret));

export interface StripeEvent {
  readonly id: string;
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The bytes of the event with this id. */
export function body(id: string): string {
  return before + id + after;
}

/** What a handler or a queue is given. */
export function event(id: string): StripeEvent {
  return JSON.parse(body(id)) as StripeEvent;
}

/** The `stripe-signature` of these bytes. */
export function signature(bytes: string | Buffer, seconds: number): string {
  return `t=${seconds},v1=${digest(seconds, bytes).toString("hex")}`;
}

export function digest(seconds: number | string, bytes: string | Buffer): Buffer {
  return createHmac("sha256", key).update(`${seconds}.`).update(bytes).digest();
}

/** Ids that no other process and no earlier run has used; as long as Stripe's own. */
export function ids(): () => string {
  const run = `${Date.now().toString(36)}${process.pid.toString(36).padStart(4, "0")}`;
  let count = 0;
  return () => `evt_1Q${run}${(count++).toString(36).padStart(6, "0")}`;
}
