/** Which types Stripe sends here, and which are handled. */
import type { Endpoint } from "../recover/backfill/stripe-api.ts";
import { type Finding, Findings } from "./finding.ts";

export interface HandledTypes {
  readonly source: string;
  /** Types, and beginnings of types with a star. */
  readonly patterns: readonly string[];
}

export function judgeEndpoints(
  endpoints: readonly Endpoint[],
  { source, patterns }: HandledTypes,
): Finding[] {
  const about = new Findings("endpoints");
  for (const { id, host, enabled } of endpoints) {
    if (!enabled)
      about.wrong(
        "endpoint_disabled",
        `The endpoint ${id} (${host}) is disabled: Stripe sends nothing there.`,
        "Enable it in the Dashboard under Webhooks, then fetch what was missed: onceward backfill stripe.",
      );
  }
  const enabled = endpoints.filter((one) => one.enabled);
  if (enabled.length === 0) {
    about.wrong(
      "endpoint_missing",
      "Stripe knows no enabled webhook endpoint for this key.",
      "Add one in the Dashboard under Webhooks, with the URL of this source.",
    );
    return about.all;
  }
  const sent = new Set(enabled.flatMap(({ types }) => types));
  if (sent.has("*")) {
    about.advice(
      "endpoint_everything",
      "An endpoint is subscribed to all types; what has no handler is recorded and ignored.",
      `Subscribe it to what ${source} handles: ${patterns.join(", ")}.`,
    );
    return about.all;
  }
  const unhandled = [...sent].filter((type) => !patterns.some((one) => matches(one, type))).toSorted();
  if (unhandled.length > 0)
    about.advice(
      "types_unhandled",
      `Stripe sends types that ${source} has no handler for: ${unhandled.join(", ")}.`,
      "Write handlers, or take the types out of the endpoint.",
    );
  const unsent = patterns.filter((pattern) => ![...sent].some((type) => matches(pattern, type)));
  if (unsent.length > 0)
    about.wrong(
      "types_not_sent",
      `${source} handles types that no endpoint is subscribed to: ${unsent.join(", ")}.`,
      "Add them to the endpoint's events in the Dashboard under Webhooks.",
    );
  return about.all;
}

function matches(pattern: string, type: string): boolean {
  return pattern.endsWith("*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
}
