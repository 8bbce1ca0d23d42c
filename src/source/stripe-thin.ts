import type Stripe from "stripe";
import { OncewardError } from "../errors.ts";
import { at, optionalWord, unreadable, type JsonObject } from "./json.ts";

/** What is used of Stripe's client: `new Stripe(apiKey)` fits. */
export interface StripeClient {
  rawRequest(
    method: string,
    path: string,
    params?: undefined,
    options?: { stripeContext?: string },
  ): Promise<unknown>;
}

type Notification = Stripe.V2.Core.EventNotification;

/**
 * A thin event with the object it is about, as that is when the handler runs (a snapshot has it as it
 * was). Null where the type relates to no object, and where the object is gone by then, as after most
 * deletions; `related_object` names it still. The full event is one call away:
 * `client.v2.core.events.retrieve(event.id)`.
 */
export type StripeThinEvent<N extends Notification = Notification> = Omit<
  N,
  "fetchEvent" | "fetchRelatedObject" | "context"
> & {
  readonly context?: string;
  readonly relatedObject: N extends { fetchRelatedObject(): Promise<infer Related> } ? Related | null : null;
};

/** The body is verified, yet a path is all that we follow: no host, no query, no way up. */
const API_PATH = /^\/v[12](?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9_.~:@+%-]+)+$/;
const WRITTEN_OTHERWISE = /%2e|%2f|%5c/i;

export async function withRelatedObject(
  source: string,
  event: JsonObject,
  client: StripeClient | undefined,
): Promise<JsonObject> {
  const url = at(event, "related_object", "url");
  if (url === undefined || url === null) return { ...event, relatedObject: null };
  if (typeof url !== "string" || !API_PATH.test(url) || WRITTEN_OTHERWISE.test(url))
    throw unreadable(source, "its related_object.url is not a path of the API");
  if (client === undefined) {
    throw new OncewardError(
      "config_invalid",
      `${source}: a thin event holds only a reference to its object. Give the source a client to fetch it: ` +
        `stripe({ secrets, client: new Stripe(apiKey) })`,
    );
  }
  // The context says in which account the object lives; without it a Connect object is "not found".
  const context = optionalWord(source, "context", at(event, "context"));
  const options = context === undefined ? {} : { stripeContext: context };
  const relatedObject = await client.rawRequest("GET", url, undefined, options).catch(nullIfGone);
  return { ...event, relatedObject };
}

/** What is gone does not come back, and its event is to be handled all the same; any other error may pass. */
function nullIfGone(error: unknown): null {
  if (error instanceof Error && "statusCode" in error && error.statusCode === 404) return null;
  throw error;
}
