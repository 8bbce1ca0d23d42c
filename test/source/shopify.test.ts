import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { shopify } from "../../src/source/shopify.ts";
import { conformance } from "./conformance.ts";
import { codeOf, identityOf, receive, refusalOf, requestOf, type Headers } from "./support.ts";

const SECRETS = ["shpss_0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"] as const;
const BODY = '{"id":820982911946154508,"admin_graphql_api_id":"gid://shopify/Order/820982911946154508"}';
const source = shopify({ secrets: SECRETS });

const headersOf = (body: Uint8Array, secret: 0 | 1 = 0, more: Headers = {}): Headers => ({
  "x-shopify-hmac-sha256": createHmac("sha256", SECRETS[secret]).update(body).digest("base64"),
  "x-shopify-topic": "orders/paid",
  "x-shopify-shop-domain": "a-shop.myshopify.com",
  "x-shopify-event-id": "98880550-7158-44d4-b7cd-2c97c8a091b5",
  "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
  "x-shopify-triggered-at": "2023-03-29T18:00:27.877041743Z",
  ...more,
});

conformance({
  name: "shopify",
  source,
  alone: [shopify({ secrets: SECRETS[0] }), shopify({ secrets: SECRETS[1] })],
  body: BODY,
  sign: (body, secret) => headersOf(body, secret),
  signed: ["x-shopify-hmac-sha256"],
  timed: false,
  secrets: SECRETS,
});

describe("Shopify", () => {
  const identify = (more: Headers = {}, body = BODY) =>
    identityOf(receive(source, requestOf(body, headersOf(Buffer.from(body), 0, more))));

  it("identifies by the event and the topic, and the shop is the account", () => {
    expect(identify()).toMatchObject({
      id: "98880550-7158-44d4-b7cd-2c97c8a091b5:orders/paid",
      type: "orders/paid",
      account: "a-shop.myshopify.com",
      objectId: "gid://shopify/Order/820982911946154508",
      createdAt: new Date("2023-03-29T18:00:27.877Z"),
    });
  });

  it("takes two subscriptions to a topic for one event, and two topics of one event for two", () => {
    expect(identify({ "x-shopify-webhook-id": "another" }).id).toBe(identify().id);
    expect(identify({ "x-shopify-topic": "orders/updated" }).id).not.toBe(identify().id);
  });

  it("falls back to the id of the webhook", () => {
    expect(identify({ "x-shopify-event-id": "" }).id).toBe("b54557e4-bdd9-4b37-8a5f-bf7d70bcd043");
  });

  it("flags one event id with two objects", () => {
    expect(identify({}, '{"admin_graphql_api_id":"gid://shopify/Order/1"}').fingerprint).not.toBe(
      identify().fingerprint,
    );
    expect(identify({}, '{"id":450789469}').objectId).toBe("450789469");
    // A number that JSON.parse cannot hold exactly is no identity.
    expect(identify({}, '{"id":820982911946154508}').objectId).toBeUndefined();
  });

  it.each(["x-shopify-topic", "x-shopify-shop-domain"])("cannot identify what has no %s header", (name) => {
    expect(codeOf(() => identify({ [name]: "" }))).toBe("body_unreadable");
  });

  it("refuses with 401, which Shopify demands of apps", () => {
    expect(source.refusalStatus).toBe(401);
  });

  it("says so when an access token is given for the client secret", () => {
    expect(refusalOf(() => shopify({ secrets: "shpat_0123456789abcdef" }))).toMatchObject({
      code: "config_invalid",
    });
  });
});
