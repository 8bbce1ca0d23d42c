import { createHmac, generateKeyPairSync, sign as signEd25519, type KeyObject } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { standardWebhooks } from "../../src/source/standard-webhooks.ts";
import { conformance } from "./conformance.ts";
import {
  codeOf,
  identityOf,
  leaks,
  NOW,
  NOW_S,
  receive,
  refusalOf,
  requestOf,
  type Headers,
} from "./support.ts";

const SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"] as const;
const BODY = '{"type":"user.created","timestamp":"2026-01-02T03:04:05Z","data":{"id":"user_1"}}';
const source = standardWebhooks({ name: "clerk", secrets: SECRETS });

function headersOf(body: Uint8Array, secret: string, seconds = NOW_S, id = "msg_1"): Headers {
  const text = Buffer.from(body).toString("utf8");
  const signature = Buffer.from(text, "utf8").equals(body)
    ? new Webhook(secret).sign(id, new Date(seconds * 1000), text)
    : hmacOf(body, secret, seconds, id);
  return { "webhook-id": id, "webhook-timestamp": String(seconds), "webhook-signature": signature };
}

/** By the specification, for bytes and times that the library cannot take. */
function hmacOf(body: Uint8Array, secret: string, seconds: number, id: string): string {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${seconds}.`).update(body).digest("base64")}`;
}

const signed = ["webhook-id", "webhook-timestamp", "webhook-signature"];

conformance({
  name: "standard webhooks, HMAC",
  source,
  alone: [
    standardWebhooks({ name: "clerk", secrets: SECRETS[0] }),
    standardWebhooks({ name: "clerk", secrets: SECRETS[1] }),
  ],
  body: BODY,
  sign: (body, secret, seconds) => ({
    ...headersOf(body, SECRETS[secret]),
    "webhook-timestamp": String(seconds),
    "webhook-signature":
      seconds > 8.64e12
        ? hmacOf(body, SECRETS[secret], seconds, "msg_1")
        : headersOf(body, SECRETS[secret], seconds)["webhook-signature"]!,
  }),
  signed,
  timed: true,
  secrets: SECRETS,
});

const pairs = [generateKeyPairSync("ed25519"), generateKeyPairSync("ed25519")] as const;
const publicKeys = pairs.map(({ publicKey }) => `whpk_${rawOf(publicKey).toString("base64")}`);

function rawOf(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: "jwk" }).x!, "base64url");
}

function asymmetric(body: Uint8Array, key: KeyObject, seconds = NOW_S): Headers {
  const signature = signEd25519(null, Buffer.concat([Buffer.from(`msg_1.${seconds}.`), body]), key);
  return {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1a,${signature.toString("base64")}`,
  };
}

conformance({
  name: "standard webhooks, ed25519",
  source: standardWebhooks({ name: "open", secrets: publicKeys }),
  alone: [
    standardWebhooks({ name: "open", secrets: publicKeys[0]! }),
    standardWebhooks({ name: "open", secrets: publicKeys[1]! }),
  ],
  body: '{"type":"a","data":{"id":"b"}}',
  sign: (body, secret, seconds) => asymmetric(body, pairs[secret].privateKey, seconds),
  signed,
  timed: true,
  slow: true,
  secrets: [],
});

describe("Standard Webhooks", () => {
  const bytes = Buffer.from(BODY);
  const verify = (headers: Headers, from = source) =>
    codeOf(() => from.verify(requestOf(BODY, headers), NOW));

  it("accepts the published example", () => {
    const headers = {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    };
    const request = requestOf('{"test": 2432232314}', headers);
    expect(codeOf(() => source.verify(request, 1614265330_000))).toBe("accepted");
  });

  it("takes the headers of Svix, and never a mixture of both kinds", () => {
    const headers = headersOf(bytes, SECRETS[0]);
    const svix = {
      "svix-id": headers["webhook-id"]!,
      "svix-timestamp": headers["webhook-timestamp"]!,
      "svix-signature": headers["webhook-signature"]!,
    };
    expect(verify(svix)).toBe("accepted");
    expect(identityOf(receive(source, requestOf(BODY, svix))).id).toBe("msg_1");
    expect(verify({ ...svix, "webhook-id": "msg_2" })).toBe("signature_missing");
    expect(verify({ ...svix, ...headers })).toBe("accepted");
  });

  it("takes one good signature among several, in one header or in several, and both kinds in one source", () => {
    const both = standardWebhooks({ name: "both", secrets: [SECRETS[0], publicKeys[0]!] });
    const hmac = headersOf(bytes, SECRETS[0])["webhook-signature"]!;
    const wrong = headersOf(bytes, SECRETS[1])["webhook-signature"]!;
    const ed25519 = asymmetric(bytes, pairs[0].privateKey)["webhook-signature"]!;
    const other = asymmetric(bytes, pairs[1].privateKey)["webhook-signature"]!;
    const result = (value: string) =>
      verify({ ...headersOf(bytes, SECRETS[0]), "webhook-signature": value }, both);
    for (const value of [
      `${wrong} ${hmac}`,
      `${other} ${ed25519}`,
      `${wrong} ${ed25519}`,
      `${wrong}, ${hmac}`,
      `v9,x ${hmac}`,
    ]) {
      expect(result(value)).toBe("accepted");
    }
    expect(result(`${wrong} ${other}`)).toBe("signature_mismatch");
    expect(result(`v9,x`)).toBe("signature_malformed");
    expect(result(`${`${wrong} `.repeat(16)}${hmac}`)).toBe("signature_malformed");
    expect(result(`${`${other} `.repeat(4)}${ed25519}`)).toBe("signature_malformed");
    // An HMAC is not taken for a signature by the public key, nor the other way round.
    expect(result(hmac.replace("v1,", "v1a,"))).toBe("signature_malformed");
    expect(result(ed25519.replace("v1a,", "v1,"))).toBe("signature_malformed");
  });

  it("does not let a signature be read in two ways: no full stop in an id", () => {
    const inner = `{"type":"evil"}`;
    const seconds = NOW_S;
    const outer = `${seconds}.${inner}`;
    const signature = headersOf(Buffer.from(outer), SECRETS[0], 5, "msg")["webhook-signature"]!;
    const shifted = {
      "webhook-id": "msg.5",
      "webhook-timestamp": String(seconds),
      "webhook-signature": signature,
    };
    expect(codeOf(() => source.verify(requestOf(inner, shifted), NOW))).toBe("signature_malformed");
  });

  it("identifies by the signed header", () => {
    expect(receive(source, requestOf(BODY, headersOf(bytes, SECRETS[0], NOW_S, "msg_7")))).toMatchObject({
      id: "msg_7",
      type: "user.created",
      objectId: "user_1",
      createdAt: new Date("2026-01-02T03:04:05.000Z"),
    });
  });

  it("has a fingerprint of the body", () => {
    const print = (body: string) =>
      identityOf(source.identify(requestOf(body, headersOf(bytes, SECRETS[0])))).fingerprint;
    expect(print(BODY)).toBe(print(BODY));
    expect(print(BODY)).not.toBe(print(`${BODY} `));
  });

  it("asks for the type and the account where it is told to", () => {
    const supabase = standardWebhooks({
      name: "supabase",
      secrets: `v1,${SECRETS[0]}`,
      type: () => "send_email",
      account: (body) => (body["project"] as { ref: string }).ref,
    });
    const identify = (body: string) =>
      receive(supabase, requestOf(body, headersOf(Buffer.from(body), SECRETS[0])));
    expect(identify('{"user":{},"project":{"ref":"abc"}}')).toMatchObject({
      type: "send_email",
      account: "abc",
    });
    expect(codeOf(() => identify('{"user":{}}'))).toBe("body_unreadable");
    expect(
      refusalOf(() => receive(source, requestOf("{}", headersOf(Buffer.from("{}"), SECRETS[0]))))?.message,
    ).toContain("option `type`");
  });

  it.each([
    [`whsk_${"A".repeat(86)}==`, "private key"],
    ["whsec_not base64", "whitespace"],
    ["whsec_notbase64!", "base64"],
    ["whsec_", "base64"],
    ["whpk_AAAA", "32 bytes"],
    [`${SECRETS[0]}\n`, "whitespace"],
  ])("diagnoses a secret when the source is made: %#", (secrets, hint) => {
    const refusal = refusalOf(() => standardWebhooks({ name: "x", secrets }));
    expect(refusal?.code).toBe("config_invalid");
    expect(refusal?.message).toContain(hint);
    expect(leaks(refusal!.message, secrets)).toBe(false);
  });

  it("takes what its own library verifies, at this very moment", () => {
    const now = Date.now();
    const headers = headersOf(bytes, SECRETS[0], Math.floor(now / 1000));
    expect(new Webhook(SECRETS[0]).verify(BODY, { ...headers })).toEqual(JSON.parse(BODY));
    expect(codeOf(() => source.verify(requestOf(BODY, headers), now))).toBe("accepted");
  });
});
