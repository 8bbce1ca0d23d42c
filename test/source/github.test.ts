import { createHmac } from "node:crypto";
import { sign, verify as verifyByGithub } from "@octokit/webhooks-methods";
import { describe, expect, it } from "vitest";
import { github } from "../../src/source/github.ts";
import { conformance } from "./conformance.ts";
import { codeOf, identityOf, NOW, receive, refusalOf, requestOf, type Headers } from "./support.ts";

const SECRETS = ["It's-a-Secret-to-Everybody", "another-secret-of-another-hook"] as const;
const BODY = '{"action":"opened","issue":{"id":7},"repository":{"id":42}}';
const source = github({ secrets: SECRETS });

async function headersOf(body: Uint8Array, secret: 0 | 1 = 0, more: Headers = {}): Promise<Headers> {
  const text = Buffer.from(body).toString("utf8");
  // The library signs text, and no empty one.
  const official = text !== "" && Buffer.from(text, "utf8").equals(body);
  const signature = official
    ? await sign(SECRETS[secret], text)
    : `sha256=${createHmac("sha256", SECRETS[secret]).update(body).digest("hex")}`;
  return {
    "x-hub-signature-256": signature,
    "x-github-event": "issues",
    "x-github-delivery": "72d3162e-cc78",
    ...more,
  };
}

conformance({
  name: "github",
  source,
  alone: [github({ secrets: SECRETS[0] }), github({ secrets: SECRETS[1] })],
  body: BODY,
  sign: (body, secret) => headersOf(body, secret),
  signed: ["x-hub-signature-256"],
  timed: false,
  secrets: SECRETS,
});

describe("GitHub", () => {
  const identify = async (body: string, more: Headers = {}) =>
    identityOf(receive(source, requestOf(body, await headersOf(Buffer.from(body), 0, more))));

  it("accepts the published example", () => {
    const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const request = requestOf("Hello, World!", { "x-hub-signature-256": signature });
    const published = github({ secrets: "It's a Secret to Everybody" });
    expect(codeOf(() => published.verify(request, NOW))).toBe("accepted");
  });

  it("agrees with GitHub's own library", async () => {
    const headers = await headersOf(Buffer.from(BODY));
    expect(await verifyByGithub(SECRETS[0], BODY, headers["x-hub-signature-256"]!)).toBe(true);
    expect(codeOf(() => source.verify(requestOf(BODY, headers), NOW))).toBe("accepted");
  });

  it("identifies by the delivery, with the event and its action as the type", async () => {
    expect(await identify(BODY)).toMatchObject({
      id: "72d3162e-cc78",
      type: "issues.opened",
      account: "repository:42",
      objectId: "issue:7",
    });
    expect(await identify('{"zen":"x"}', { "x-github-event": "ping" })).toMatchObject({
      type: "ping",
      account: undefined,
    });
  });

  it.each([
    ['{"installation":{"id":1},"organization":{"id":2},"repository":{"id":3}}', "installation:1"],
    ['{"organization":{"id":2},"repository":{"id":3}}', "organization:2"],
    ['{"repository":{"id":3}}', "repository:3"],
  ])("knows whose event it is from the signed body: %s", async (body, account) => {
    expect((await identify(body)).account).toBe(account);
  });

  it("names what an event is about by its kind and id, and the most special of several", async () => {
    const kinds = "pull_request issue discussion release deployment check_run check_suite workflow_run".split(
      " ",
    );
    for (const [index, kind] of kinds.entries()) {
      const objects = kinds.slice(index).map((name) => `"${name}":{"id":7,"title":"x"}`);
      expect((await identify(`{${objects.toReversed().join()}}`)).objectId).toBe(`${kind}:7`);
    }
  });

  it("flags a known delivery with another body or under another event name", async () => {
    const known = (await identify(BODY)).fingerprint;
    expect((await identify(BODY)).fingerprint).toBe(known);
    expect((await identify(BODY, { "x-github-event": "push" })).fingerprint).not.toBe(known);
    expect((await identify(BODY.replace("42", "43"))).fingerprint).not.toBe(known);
  });

  it("reads a form, as the webhook's settings may say", async () => {
    const form = `payload=${encodeURIComponent(BODY)}`;
    expect(await identify(form)).toMatchObject({ type: "issues.opened", account: "repository:42" });
    expect(source.parse(Buffer.from(form), { id: "1", type: "x" })).toEqual(JSON.parse(BODY));
  });

  it.each(["x-github-event", "x-github-delivery"])("cannot identify what has no %s header", async (name) => {
    for (const value of ["", "a\0b", "x".repeat(256)]) {
      await expect(identify(BODY, { [name]: value })).rejects.toMatchObject({ code: "body_unreadable" });
    }
  });

  it.each([
    "ghp_0123456789abcdef",
    "github_pat_0123456789",
    "ghs_0123456789abcdef",
    "-----BEGIN RSA PRIVATE KEY-----",
    "secret\n",
  ])("says so when a token or a key is given for the secret: %s", (secrets) => {
    expect(refusalOf(() => github({ secrets }))).toMatchObject({ code: "config_invalid" });
  });
});
