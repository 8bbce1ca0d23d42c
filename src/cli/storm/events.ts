import { readFileSync } from "node:fs";
import { packageFile } from "../../package.ts";
import { Failure } from "../fail.ts";

/** An event as Stripe would send it: `id` for reports, `body` for the wire. */
export interface StormEvent {
  readonly id: string;
  readonly type: string;
  /** The id of the object it is about; every event of a storm has its own, but for twins. */
  readonly objectId: string;
  readonly body: string;
}

interface Template {
  id: string;
  type: string;
  created: number;
  data: { object: Record<string, unknown> };
}

const fixtures = "test/fixtures/stripe-events.ndjson";

/** What is sent a second time under another id, for the same fact. Others are twins of the same type. */
const twinTypes: Record<string, string> = {
  "invoice.paid": "invoice.payment_succeeded",
  "invoice.payment_succeeded": "invoice.paid",
  "checkout.session.completed": "checkout.session.async_payment_succeeded",
};

export function knownTypes(): string[] {
  return [...templates().keys()].toSorted();
}

/** The nth event of a storm, on a real object of Stripe's; `tag` tells its ids from those of other storms. */
export function stormEvent(type: string, tag: string, n: number, twin = false): StormEvent {
  const known = templates();
  const sent = twin ? (twinTypes[type] ?? type) : type;
  const template = known.get(sent);
  if (!template) throw new Failure(`There is no sample of ${sent}. Known: ${knownTypes().join(", ")}.`);
  const event = structuredClone(template);
  const { object } = event.data;
  const name = `${tag}_${n}`;
  event.id = `evt_${name}${twin ? "_twin" : ""}`;
  event.created = Math.floor(Date.now() / 1000);
  object["id"] = `${String(object["id"]).split("_", 1)[0]}_${name}`;
  if ("customer" in object) object["customer"] = `cus_${name}`;
  if (object["object"] === "checkout.session")
    Object.assign(object, { payment_status: "paid", amount_total: 4900, currency: "eur" });
  if (object["object"] === "invoice") Object.assign(object, { amount_paid: 1900, status: "paid" });
  return { id: event.id, type: sent, objectId: String(object["id"]), body: JSON.stringify(event) };
}

let read: Map<string, Template> | undefined;

function templates(): Map<string, Template> {
  read ??= new Map(
    readFileSync(packageFile(fixtures) ?? fixtures, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Template)
      .map((template) => [template.type, template]),
  );
  return read;
}
