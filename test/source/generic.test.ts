import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { signed, type SignedOptions } from "../../src/source/generic.ts";
import { conformance } from "./conformance.ts";
import { codeOf, NOW, NOW_S, receive, refusalOf, requestOf, type Headers } from "./support.ts";

const SECRETS = ["the-secret-of-acme-corporation", "the-next-secret-of-acme-corporation"] as const;
const BODY = '{"id":"e_1","kind":"order.paid","customer":{"id":9}}';

const options: SignedOptions = {
  name: "acme",
  secrets: SECRETS,
  signature: { header: "x-acme-signature", algorithm: "sha512", encoding: "base64", prefix: "v1 " },
  timestamp: { header: "x-acme-time", signed: (time) => `${time}.` },
  id: ({ body }) => body["id"],
  type: ({ body }) => body["kind"],
  account: ({ header }) => header("x-acme-tenant"),
  objectId: ({ body }) => (body["customer"] as { id: number }).id,
};
const source = signed(options);

const headersOf = (body: Uint8Array, secret: 0 | 1 = 0, seconds = NOW_S): Headers => ({
  "x-acme-signature": `v1 ${createHmac("sha512", SECRETS[secret]).update(`${seconds}.`).update(body).digest("base64")}`,
  "x-acme-time": String(seconds),
  "x-acme-tenant": "t1",
});

conformance({
  name: "signed",
  source,
  alone: [signed({ ...options, secrets: SECRETS[0] }), signed({ ...options, secrets: SECRETS[1] })],
  body: BODY,
  sign: headersOf,
  signed: ["x-acme-signature", "x-acme-time"],
  timed: true,
  secrets: SECRETS,
});

describe("a signed source", () => {
  it("reads id, type, account and object where it was told to", () => {
    expect(receive(source, requestOf(BODY, headersOf(Buffer.from(BODY))))).toMatchObject({
      id: "e_1",
      type: "order.paid",
      account: "t1",
      objectId: "9",
    });
  });

  it.each(["sha1", "sha256", "sha384", "sha512"] as const)(
    "verifies %s in hex, without a time",
    (algorithm) => {
      const plain = signed({
        name: "plain",
        secrets: SECRETS[0],
        signature: { header: "x-sig", algorithm },
        id: () => 1,
        type: () => "x",
      });
      const hex = createHmac(algorithm, SECRETS[0]).update(BODY).digest("hex");
      const verify = (value: string) => codeOf(() => plain.verify(requestOf(BODY, { "x-sig": value }), NOW));
      expect(verify(hex)).toBe("accepted");
      expect(verify(hex.toUpperCase())).toBe("accepted");
      expect(verify(hex.slice(2))).toBe("signature_malformed");
      expect(verify(hex.replace(/^./, (digit) => (digit === "0" ? "1" : "0")))).toBe("signature_mismatch");
    },
  );

  it.each([
    () => undefined,
    () => null,
    () => ({}),
    () => 2 ** 53,
    () => 0.5,
    () => "\0",
    () => {
      throw new Error("quotes the body");
    },
  ])("refuses an id that is none: %#", (id) => {
    const refusal = refusalOf(() => signed({ ...options, id }).identify(requestOf(BODY, {})));
    expect(refusal?.code).toBe("body_unreadable");
    expect(refusal?.cause).toBeUndefined();
    expect(refusal?.message).not.toContain("quotes");
  });

  it("wants the names of headers in lower case, as readers of headers do", () => {
    expect(codeOf(() => signed({ ...options, signature: { header: "X-Acme-Signature" } }))).toBe(
      "config_invalid",
    );
  });
});
