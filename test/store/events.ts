import { stormEvent, type StormEvent } from "../../src/cli/storm/events.ts";

let runs = 0;

/** Ids of their own for each test. */
export function freshTag(prefix = "t"): string {
  return `${prefix}${Date.now().toString(36)}${(runs++).toString(36)}`;
}

interface Sent {
  id: string;
  created: number;
  data: { object: Record<string, unknown> };
}

/** An event, with changes of its object. */
export function eventOf(
  type: string,
  tag: string,
  {
    object = {},
    ...over
  }: { object?: Record<string, unknown>; id?: string; type?: string; created?: number } = {},
): StormEvent {
  const event = stormEvent(type, tag, 0);
  const sent = JSON.parse(event.body) as Sent;
  Object.assign(sent, over);
  Object.assign(sent.data.object, object);
  return { ...event, id: sent.id, body: JSON.stringify(sent) };
}

export const checkout = (tag: string, twin = false): StormEvent =>
  stormEvent("checkout.session.completed", tag, 0, twin);

/** As Stripe says that a test clock moves: `days` from now. */
export function clockEvent(days: number): StormEvent {
  const tag = freshTag("clock");
  return eventOf("customer.updated", tag, {
    type: "test_helpers.test_clock.advancing",
    object: {
      id: `clock_${tag}`,
      object: "test_helpers.test_clock",
      frozen_time: Math.floor(Date.now() / 1000) + days * 86_400,
    },
  });
}
