import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import Stripe from "stripe";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { stripe, type StripeEvents } from "../../src/source/stripe.ts";
import { conformance } from "./conformance.ts";
import { codeOf, identityOf, NOW, NOW_S, refusalOf, requestOf, stripeEvents } from "./support.ts";

const SECRETS = [
  "whsec_6f1c0f4b5f3d49d1a1c1d1e1f1a1b1c1",
  "whsec_0000000011111111222222223333333344",
] as const;
const sdk = new Stripe("sk_test_nothing");
const source = stripe({ secrets: SECRETS });

const header = (payload: string, secret: string = SECRETS[0], timestamp = NOW_S) =>
  sdk.webhooks.generateTestHeaderString({ payload, secret, timestamp });
const verify = (body: string | Uint8Array, signature: string) =>
  codeOf(() => source.verify(requestOf(body, { "stripe-signature": signature }), NOW));
const identify = (event: object) => identityOf(source.identify(requestOf(JSON.stringify(event), {})));

const BODY =
  '{"id":"evt_1","object":"event","type":"a.b","created":1,"livemode":false,"data":{"object":{"id":"o_1"}}}';

conformance({
  name: "stripe",
  source,
  alone: [stripe({ secrets: SECRETS[0] }), stripe({ secrets: SECRETS[1] })],
  body: BODY,
  sign: (body, secret, seconds) => {
    const text = Buffer.from(body).toString("utf8");
    // The SDK signs text, and takes 0 for "now"; what it cannot sign is signed by the specification.
    if (seconds > 0 && Buffer.from(text, "utf8").equals(body))
      return { "stripe-signature": header(text, SECRETS[secret], seconds) };
    const v1 = createHmac("sha256", SECRETS[secret]).update(`${seconds}.`).update(body).digest("hex");
    return { "stripe-signature": `t=${seconds},v1=${v1}` };
  },
  signed: ["stripe-signature"],
  timed: true,
  secrets: SECRETS,
});

describe("a sample", () => {
  it.each([undefined, true, false])(
    "is genuine, for the source that signed it alone, livemode %s",
    (livemode) => {
      const own = stripe({ secrets: SECRETS[0], ...(livemode !== undefined && { livemode }) });
      const sample = own.sample!(NOW);
      expect(codeOf(() => own.verify(sample, NOW))).toBe("accepted");
      expect(identityOf(own.identify(sample))).toMatchObject({
        id: "evt_sample",
        livemode: livemode ?? false,
      });
      expect(codeOf(() => stripe({ secrets: SECRETS[1] }).verify(sample, NOW))).toBe("signature_mismatch");
      expect(codeOf(() => own.verify(sample, NOW + 301_000))).toBe("timestamp_too_old");
    },
  );
});

describe("the stripe-signature header", () => {
  const signature = header(BODY).split("v1=")[1]!;
  const zeros = "0".repeat(64);

  it.each([
    ["of one secret while another is rolled in", `t=${NOW_S},v1=${zeros},v1=${signature}`, "accepted"],
    ["with the scheme of test events beside", `t=${NOW_S},v1=${signature},v0=${zeros}`, "accepted"],
    ["that came as several headers", `t=${NOW_S}, v1=${signature}`, "accepted"],
    ["in another order", `v1=${signature},t=${NOW_S}`, "accepted"],
    ["with a scheme from the future", `t=${NOW_S},v9=${zeros},v1=${signature}`, "accepted"],
    ["with 16 signatures", `t=${NOW_S}${`,v1=${zeros}`.repeat(15)},v1=${signature}`, "accepted"],
    ["with 17 signatures", `t=${NOW_S}${`,v1=${zeros}`.repeat(16)},v1=${signature}`, "signature_malformed"],
    [
      "with 10,000 signatures",
      `t=${NOW_S}${`,v1=${zeros}`.repeat(10_000)},v1=${signature}`,
      "signature_malformed",
    ],
    ["with the scheme of test events only", `t=${NOW_S},v0=${signature}`, "signature_malformed"],
    ["with two timestamps", `t=${NOW_S},t=${NOW_S},v1=${signature}`, "signature_malformed"],
    ["twice", `t=${NOW_S},v1=${signature}, t=${NOW_S},v1=${signature}`, "signature_malformed"],
    [
      "with digits of another script",
      `t=${String(NOW_S).replaceAll("7", "٧")},v1=${signature}`,
      "signature_malformed",
    ],
    ["with a negative timestamp", `t=-${NOW_S},v1=${signature}`, "signature_malformed"],
    ["with a timestamp beyond numbers", `t=1e400,v1=${signature}`, "signature_malformed"],
    ["with upper-case hex", `t=${NOW_S},v1=${signature.toUpperCase()}`, "signature_malformed"],
    ["with a signature cut short", `t=${NOW_S},v1=${signature.slice(2)}`, "signature_malformed"],
    ["with the signature of other bytes", `t=${NOW_S},v1=${zeros}`, "signature_mismatch"],
    ["with the timestamp written otherwise", `t=0${NOW_S},v1=${signature}`, "signature_mismatch"],
  ])("%s: %#", (_, value, expected) => {
    expect(verify(BODY, value)).toBe(expected);
  });

  it("is never accepted where Stripe's own library refuses it", () => {
    const genuine = header(BODY);
    const piece = fc.constantFrom(
      "t=",
      "v1=",
      "v0=",
      ",",
      " ",
      "=",
      String(NOW_S),
      signature,
      zeros,
      "1",
      "a",
      "\t",
    );
    const spliced = fc
      .tuple(fc.nat(genuine.length), fc.nat(20), piece)
      .map(([start, length, text]) => genuine.slice(0, start) + text + genuine.slice(start + length));
    fc.assert(
      fc.property(
        fc.oneof(
          spliced,
          fc.array(piece).map((pieces) => pieces.join("")),
        ),
        fc.constantFrom(...SECRETS),
        (value, secret) => {
          const ours = codeOf(() =>
            stripe({ secrets: secret }).verify(requestOf(BODY, { "stripe-signature": value }), NOW),
          );
          // The SDK does not trim, so it is shown what we take the header for.
          const trimmed = value
            .split(",")
            .map((item) => item.trim())
            .join(",");
          const theirs = () => sdk.webhooks.constructEvent(BODY, trimmed, secret, 300, undefined, NOW);
          if (ours === "accepted") expect(theirs).not.toThrow();
        },
      ),
      { numRuns: 3000 },
    );
  });

  it("is accepted for every type of event, signed by Stripe's own library", () => {
    for (const line of stripeEvents()) {
      expect(verify(line, header(line))).toBe("accepted");
      expect(verify(line.replace('"livemode":false', '"livemode":true '), header(line))).toBe(
        "signature_mismatch",
      );
    }
  });
});

describe("the identity of a Stripe event", () => {
  it("is what the event says of itself", () => {
    for (const line of stripeEvents()) {
      const event = JSON.parse(line) as Stripe.Event;
      const identity = identityOf(source.identify(requestOf(line, {})));
      expect(identity).toMatchObject({
        id: event.id,
        type: event.type,
        livemode: false,
        account: undefined,
        objectId: (event.data.object as { id?: string }).id,
        createdAt: new Date(event.created * 1000),
      });
    }
  });

  const event = JSON.parse(stripeEvents()[4]!) as Record<string, unknown>;

  it("has the same fingerprint in every delivery, and another for another fact", () => {
    const same = identify(event).fingerprint;
    expect(identify({ ...event, pending_webhooks: 3, api_version: "2020-01-01" }).fingerprint).toBe(same);
    // Account and mode are in the scope; what the API lists for an account does not name it.
    expect(identify({ ...event, account: "acct_1" }).fingerprint).toBe(same);
    const others = [{ type: "price.updated" }, { created: 1 }, { data: { object: { id: "o" } } }];
    const prints = others.map((other) => identify({ ...event, ...other }).fingerprint);
    expect(new Set([same, ...prints]).size).toBe(others.length + 1);
  });

  it("has the same fingerprint in twins, for types that happen once to an object", () => {
    const session = JSON.parse(stripeEvents()[0]!) as { id: string; created: number };
    const twin = { ...session, id: "evt_twin", created: session.created + 1 };
    expect(identify(twin).fingerprint).toBe(identify(session).fingerprint);
    expect(identify(twin).objectId).toBe(identify(session).objectId);
  });

  it("names the connected account", () => {
    expect(identify({ ...event, account: "acct_1Q" }).account).toBe("acct_1Q");
  });

  it("has no object where the event is about none: invoice.upcoming", () => {
    expect(
      identify({ ...event, type: "invoice.upcoming", data: { object: { object: "invoice" } } }).objectId,
    ).toBeUndefined();
  });

  it("refuses the other mode where it was told to, and takes both where it was not", () => {
    const test = requestOf(JSON.stringify({ ...event, livemode: false }), {});
    const live = requestOf(JSON.stringify({ ...event, livemode: true }), {});
    const only = (livemode: boolean) => stripe({ secrets: SECRETS, livemode });
    expect(codeOf(() => only(true).identify(test))).toBe("livemode_mismatch");
    expect(codeOf(() => only(false).identify(live))).toBe("livemode_mismatch");
    expect(codeOf(() => only(true).identify(live))).toBe("accepted");
    expect(codeOf(() => only(false).identify(test))).toBe("accepted");
    expect([source.identify(test), source.identify(live)]).toMatchObject([
      { livemode: false },
      { livemode: true },
    ]);
  });

  it("can be once per object only for types that the SDK knows and that never recur", () => {
    const once = source.oncePerObject!;
    const known: readonly Stripe.Event["type"][] = [
      "checkout.session.completed",
      "customer.subscription.deleted",
      "invoice.finalized",
    ];
    for (const type of known) expect(once.has(type) && once.has(`v1.${type}`)).toBe(true);
    for (const type of once)
      expect(type).not.toMatch(/updated|failed|refunded|invoice\.paid|invoice\.payment_succeeded/);
  });
});

describe("a thin event of Stripe", () => {
  const thin = {
    id: "evt_test_65T",
    object: "v2.core.event",
    type: "v1.customer.created",
    created: "2026-01-02T03:04:05.678901Z",
    livemode: false,
    context: "acct_9",
    snapshot_event: "evt_1",
    related_object: { id: "cus_1", type: "customer", url: "/v1/customers/cus_1" },
  };
  const bytes = (event: object) => Buffer.from(JSON.stringify(event));

  it("is identified without a call", () => {
    expect(identify(thin)).toMatchObject({
      id: "evt_test_65T",
      type: "v1.customer.created",
      account: "acct_9",
      livemode: false,
      objectId: "cus_1",
      createdAt: new Date("2026-01-02T03:04:05.678Z"),
    });
    expect(identify({ ...thin, related_object: null }).objectId).toBeUndefined();
    expect(
      identify({ ...thin, related_object: { type: "balance", url: "/v1/balance" } }).objectId,
    ).toBeUndefined();
  });

  it("reaches the handler with its object, fetched by Stripe's own client in the event's account", async () => {
    const seen: unknown[] = [];
    const server = createServer((request, response) => {
      seen.push([request.method, request.url, request.headers["stripe-context"]]);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ id: "cus_1", object: "customer", email: "a@example.com" }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const client = new Stripe("sk_test_nothing", {
      host: "127.0.0.1",
      port,
      protocol: "http",
      telemetry: false,
    });
    try {
      const event = await stripe({ secrets: SECRETS, client }).parse(bytes(thin), {
        id: thin.id,
        type: thin.type,
      });
      expect(event).toMatchObject({ ...thin, relatedObject: { id: "cus_1", object: "customer" } });
      expect(seen).toEqual([["GET", "/v1/customers/cus_1", "acct_9"]]);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it("reaches the handler without its object where that is gone, and not where Stripe says anything else", async () => {
    let status = 404;
    const server = createServer((_, response) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(
        JSON.stringify({ error: { code: "resource_missing", message: "No such customer: 'cus_1'" } }),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const client = new Stripe("sk_test_nothing", {
      host: "127.0.0.1",
      port,
      protocol: "http",
      telemetry: false,
      maxNetworkRetries: 0,
    });
    const parse = async () => stripe({ secrets: SECRETS, client }).parse(bytes(thin), thin);
    try {
      expect(await parse()).toEqual({ ...thin, relatedObject: null });
      for (status of [400, 401, 403, 429, 500]) {
        await expect(parse()).rejects.toMatchObject({ statusCode: status });
      }
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it("is followed to an object whose id the user chose", async () => {
    const client = { rawRequest: (_: string, path: string) => Promise.resolve({ path }) };
    const event = {
      ...thin,
      related_object: { id: "x", type: "coupon", url: "/v1/coupons/25.5%25-off:2026" },
    };
    expect(await stripe({ secrets: SECRETS, client }).parse(bytes(event), thin)).toMatchObject({
      relatedObject: { path: "/v1/coupons/25.5%25-off:2026" },
    });
  });

  it("says what is missing where there is no client", async () => {
    await expect(async () => source.parse(bytes(thin), thin)).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("client: new Stripe") as string,
    });
  });

  it("needs no client where it relates to no object", async () => {
    expect(await source.parse(bytes({ ...thin, related_object: null }), thin)).toMatchObject({
      relatedObject: null,
    });
  });

  it.each([
    "https://evil.example/v1/x",
    "//evil.example/v1/x",
    "/v1/../v2/x",
    "/v1/..",
    "/v1/a/./b",
    "/v1/%2e%2e/x",
    "/v1/a%2Fb",
    "/v1/a b",
    "/v1//x",

    "/v1/customers/cus_1?expand=x",
    "/x",
    "",
    7,
    {},
  ])("is not followed to %j", async (url) => {
    const client = { rawRequest: () => Promise.reject(new Error("called")) };
    const event = { ...thin, related_object: { id: "x", type: "x", url } };
    await expect(async () =>
      stripe({ secrets: SECRETS, client }).parse(bytes(event), thin),
    ).rejects.toMatchObject({
      code: "body_unreadable",
    });
  });
});

describe("the secrets of Stripe", () => {
  it.each([
    ["sk_live_51HxSecretSecretSecret", "secret API key"],
    ["rk_live_51HxSecretSecretSecret", "restricted API key"],
    ["pk_live_51HxSecretSecretSecret", "publishable API key"],
    [`${SECRETS[0]}\n`, "whitespace"],
    [` ${SECRETS[0]}`, "whitespace"],
    ["whsec_abc defSecretSecret", "whitespace"],
    [`"${SECRETS[0]}"`, "quotes"],
    ["6f1c0f4b5f3d49d1a1c1d1e1f1a1b1c1", "whsec_"],
    ["whsec_", "whsec_"],
    ["", "environment variable"],
    [undefined as unknown as string, "environment variable"],
  ])("are diagnosed when the source is made: %#", (secret, hint) => {
    for (const secrets of [secret, [SECRETS[0], secret]]) {
      const refusal = refusalOf(() => stripe({ secrets }));
      expect(refusal?.code).toBe("config_invalid");
      expect(refusal?.message).toContain(hint);
      if (secret !== undefined && secret.length > 10)
        expect(refusal?.message).not.toContain(secret.trim().slice(8, 20));
    }
  });

  it("are read from the environment when they are first needed, and diagnosed by the name of their variable", () => {
    const rolled = stripe({ secrets: [{ env: "STRIPE_TEST_SECRET" }, SECRETS[1]] });
    const verify = (secret: string) => () =>
      rolled.verify(requestOf(BODY, { "stripe-signature": header(BODY, secret) }), NOW);
    for (const [value, hint] of [
      [undefined, "not set"],
      ["", "not set"],
      ["sk_live_51HxSecretSecret", "secret API key"],
    ] as const) {
      vi.stubEnv("STRIPE_TEST_SECRET", value);
      for (const needed of [verify(SECRETS[0]), () => rolled.check?.(), () => rolled.sample?.(NOW)]) {
        const refusal = refusalOf(needed);
        expect(refusal?.code).toBe("config_invalid");
        expect(refusal?.message).toMatch(new RegExp(`^stripe: STRIPE_TEST_SECRET is .*${hint}`));
        expect(refusal?.message).not.toContain("51Hx");
      }
    }
    vi.stubEnv("STRIPE_TEST_SECRET", SECRETS[0]);
    for (const secret of SECRETS) expect(verify(secret)).not.toThrow();
    rolled.check?.();
    vi.unstubAllEnvs();
  });

  it("are at least one", () => {
    expect(codeOf(() => stripe({ secrets: [] }))).toBe("config_invalid");
  });

  it.each([0, -1, Number.NaN, Infinity])("go with a tolerance that is a time: not %d", (tolerance) => {
    expect(codeOf(() => stripe({ secrets: SECRETS, tolerance }))).toBe("config_invalid");
  });

  it.each(["", "Stripe", "a/b", "1a", "a".repeat(64)])("go with a name that fits a scope: not %j", (name) => {
    expect(codeOf(() => stripe({ secrets: SECRETS, name }))).toBe("config_invalid");
  });
});

describe("the types of Stripe's events", () => {
  it("are Stripe's own, by the type of the event", () => {
    expectTypeOf<
      StripeEvents["checkout.session.completed"]["data"]["object"]
    >().toEqualTypeOf<Stripe.Checkout.Session>();
    expectTypeOf<StripeEvents["invoice.paid"]>().toEqualTypeOf<Stripe.InvoicePaidEvent>();
    expectTypeOf<
      StripeEvents["v1.customer.created"]["relatedObject"]
    >().toEqualTypeOf<Stripe.Customer | null>();
    expectTypeOf<StripeEvents["v2.core.event_destination.ping"]["relatedObject"]>().not.toBeAny();
    expectTypeOf<Stripe>().toExtend<NonNullable<Parameters<typeof stripe>[0]["client"]>>();
  });
});
