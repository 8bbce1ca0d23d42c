import { decodeBase64, fingerprintOf } from "./bytes.ts";
import { hmacKeys, hmacMatches } from "./hmac.ts";
import {
  accountWord,
  at,
  hintWord,
  optionalWord,
  readObject,
  readParts,
  word,
  type JsonObject,
} from "./json.ts";
import { identityHeader, malformed, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type Secrets } from "./secrets.ts";
import { partsOf } from "./skim.ts";
import type { Identity, Source } from "./source.ts";
import { dateFromText } from "./timestamp.ts";

export interface ShopifyOptions {
  /** The app's client secrets. */
  secrets: Secrets;
  /** Default `shopify`. Part of the scope. */
  name?: string;
}

const HEADER = "x-shopify-hmac-sha256";

/** The object's two ids; everything else that identifies an event is in the headers. */
const PARTS = partsOf({ admin_graphql_api_id: true, id: true });

/**
 * Webhooks of Shopify. The type is the topic: `orders/paid`.
 *
 * Shopify signs the body alone; id, topic and shop come in headers that nothing vouches for but TLS.
 * So take effect keys from the body (an order's id), and let nothing that matters hang on the shop's
 * name in the header without a look at whose object it is.
 *
 * The identity is the event id, which Shopify names as the mark of a duplicate: it is equal between
 * retries, and between several subscriptions to one topic, whose webhook ids differ. It goes together
 * with the topic, since one event can concern several. Where it is absent the webhook id serves.
 */
export function shopify<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: ShopifyOptions,
): Source<Events> {
  const name = sourceName(options.name ?? "shopify");
  const keys = secretKeys(
    name,
    options.secrets,
    {
      where: "Webhooks are signed with the app's client secret, from the app's settings",
      mistaken: { shpat_: "an access token", shpca_: "an access token", shppa_: "an access token" },
    },
    hmacKeys,
  );

  return {
    name,
    check: () => void keys(),
    // Shopify demands it of apps, and tries it before it lists one.
    refusalStatus: 401,

    verify(request) {
      const candidate = decodeBase64(signatureHeader(name, request, HEADER), 32);
      if (candidate === undefined) throw malformed(name, HEADER, "is not base64 of 32 bytes");
      const genuine = hmacMatches({
        algorithm: "sha256",
        keys: keys(),
        prefix: "",
        body: request.body,
        candidates: [candidate],
      });
      if (!genuine) throw mismatch(name, request, "the client secret is another app's");
    },

    identify(request): Identity {
      const body = readParts(name, request.body, PARTS);
      const topic = identityHeader(name, request, "x-shopify-topic");
      const event = optionalWord(name, "x-shopify-event-id header", request.header("x-shopify-event-id"));
      const shop = identityHeader(name, request, "x-shopify-shop-domain");
      const objectId = hintWord(at(body, "admin_graphql_api_id") ?? at(body, "id"));
      return {
        id:
          event === undefined
            ? identityHeader(name, request, "x-shopify-webhook-id")
            : word(name, "id", `${event}:${topic}`),
        type: topic,
        account: accountWord(name, shop),
        objectId,
        // Should one event id ever stand for two objects, the second is flagged and not lost in silence.
        fingerprint: fingerprintOf([topic, objectId]),
        createdAt: dateFromText(request.header("x-shopify-triggered-at")),
      };
    },

    parse(body) {
      return readObject(name, body);
    },
  };
}
