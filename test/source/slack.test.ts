import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { slack } from "../../src/source/slack.ts";
import { conformance } from "./conformance.ts";
import { codeOf, identityOf, NOW, NOW_S, receive, refusalOf, requestOf, type Headers } from "./support.ts";

const SECRETS = ["8f742231b10e8888abcd99yyyzzz85a5", "0123456789abcdef0123456789abcdef"] as const;
const BODY =
  '{"type":"event_callback","event_id":"Ev1","team_id":"T1","event_time":1750000000,"event":{"type":"app_mention"}}';
const source = slack({ secrets: SECRETS });

function headersOf(body: Uint8Array, secret: 0 | 1 = 0, seconds = NOW_S): Headers {
  const hmac = createHmac("sha256", SECRETS[secret]).update(`v0:${seconds}:`).update(body).digest("hex");
  return { "x-slack-signature": `v0=${hmac}`, "x-slack-request-timestamp": String(seconds) };
}

conformance({
  name: "slack",
  source,
  alone: [slack({ secrets: SECRETS[0] }), slack({ secrets: SECRETS[1] })],
  body: BODY,
  sign: headersOf,
  signed: ["x-slack-signature", "x-slack-request-timestamp"],
  timed: true,
  secrets: SECRETS,
});

/** The request in Slack's guide to verifying requests. */
const PUBLISHED =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
  "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
  "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

describe("Slack", () => {
  const answer = (body: string | object) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return receive(source, requestOf(text, headersOf(Buffer.from(text))));
  };
  const interaction = (payload: object) => answer(`payload=${encodeURIComponent(JSON.stringify(payload))}`);

  it("accepts the published example, a slash command", () => {
    const request = requestOf(PUBLISHED, {
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
      "x-slack-request-timestamp": "1531420618",
    });
    expect(codeOf(() => source.verify(request, 1531420618_000))).toBe("accepted");
    expect(source.identify(request)).toMatchObject({
      id: "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
      type: "slash_command",
      account: "T1DC2JH3J",
      acknowledge: { status: 200, body: "" },
    });
    expect(source.parse(request.body, { id: "1", type: "slash_command" })).toMatchObject({
      command: "/webhook-collect",
      text: "",
    });
  });

  it("answers the challenge with which Slack tries a URL, and its check of TLS", () => {
    expect(answer({ type: "url_verification", token: "x", challenge: "3eZbrw1a" })).toMatchObject({
      reply: { status: 200, body: "3eZbrw1a" },
    });
    expect(answer("ssl_check=1&token=x")).toMatchObject({ reply: { status: 200, body: "" } });
  });

  it("identifies an event by its id, so that a retry is a duplicate", () => {
    const event = { ...(JSON.parse(BODY) as object), authorizations: [] };
    const identity = identityOf(answer(event));
    expect(identity).toMatchObject({
      id: "Ev1",
      type: "app_mention",
      account: "T1",
      createdAt: new Date("2025-06-15T15:06:40.000Z"),
    });
    expect(identity.acknowledge).toBeUndefined();
    const retried = identityOf(answer({ ...event, authorizations: [{ user_id: "U1" }] }));
    expect(retried.fingerprint).toBe(identity.fingerprint);
    expect(identityOf(answer({ ...event, event: { type: "message" } })).fingerprint).not.toBe(
      identity.fingerprint,
    );
  });

  it("identifies interactions by their trigger", () => {
    const action = { type: "block_actions", trigger_id: "1.2.3", team: { id: "T9" }, view: { id: "V1" } };
    expect(interaction(action)).toMatchObject({
      id: "1.2.3",
      type: "block_actions",
      account: "T9",
      objectId: "V1",
      acknowledge: { status: 200, body: "" },
    });
    expect(
      interaction({ type: "shortcut", trigger_id: "1", team: null, enterprise: { id: "E1" } }),
    ).toMatchObject({ account: "E1" });
    expect(
      source.parse(Buffer.from(`payload=${encodeURIComponent(JSON.stringify(action))}`), {
        id: "1",
        type: "x",
      }),
    ).toEqual(action);
  });

  it.each([
    { container: { type: "message", message_ts: "1.2", channel_id: "C1" }, channel: { id: "C1" } },
    { container: { type: "view", view_id: "V1" }, view: { id: "V1" } },
  ])("knows no options for a menu that is filled as the user types: %j", (where) => {
    const typed = {
      type: "block_suggestion",
      team: { id: "T1" },
      action_id: "a",
      block_id: "b",
      value: "se",
    };
    expect(interaction({ ...typed, ...where })).toEqual({
      reply: { status: 200, headers: { "content-type": "application/json" }, body: '{"options":[]}' },
    });
  });

  it("identifies the closing of a view, which has no trigger, by the view and its state", () => {
    const closed = (hash: string) =>
      identityOf(interaction({ type: "view_closed", team: { id: "T1" }, view: { id: "V1", hash } }));
    expect(closed("1").id).toMatch(/^view_closed:V1:/);
    expect(closed("1").id).toBe(closed("1").id);
    expect(closed("1").id).not.toBe(closed("2").id);
  });

  it.each([
    { type: "block_actions", trigger_id: "1", view: { id: "V1" }, team: { id: "T1" } },
    { type: "shortcut", trigger_id: "1", team: null, enterprise: { id: "E1" } },
    { type: "shortcut", trigger_id: "1", enterprise_id: "E1" },
    { command: "/x", trigger_id: "1", team_id: "T1" },
    { ssl_check: "1" },
  ])("reads a message alike, as it is or in a form: %j", (message) => {
    expect(answer(message)).toEqual(interaction(message));
  });

  it("identifies the notice that events were held back, by its minute", () => {
    expect(
      answer({ type: "app_rate_limited", team_id: "T1", minute_rate_limited: 1518467820 }),
    ).toMatchObject({
      id: "app_rate_limited:1518467820",
      type: "app_rate_limited",
    });
  });

  it.each([
    { type: "event_callback", event: { type: "x" } },
    { type: "block_actions" },
    { type: "event_callback", event_id: "E", event: {} },
  ])("cannot identify what has no id or no type: %j", (body) => {
    expect(codeOf(() => answer(body))).toBe("body_unreadable");
  });

  it("is not confused by fields named like what objects inherit", () => {
    expect(codeOf(() => answer("__proto__=1&constructor=2&hasOwnProperty=3"))).toBe("body_unreadable");
    expect(answer("command=/x&trigger_id=1&__proto__=2")).toMatchObject({ id: "1" });
  });

  it.each(["xoxb-1234567890-abcdef", "xoxp-1234567890-abcdef", "xapp-1-A1234567890"])(
    "says so when a token is given for the signing secret: %s",
    (secrets) => {
      const refusal = refusalOf(() => slack({ secrets }));
      expect(refusal).toMatchObject({ code: "config_invalid" });
      expect(refusal?.message).not.toContain(secrets);
    },
  );

  it("does not let a request be read at another time", () => {
    const headers = headersOf(Buffer.from(PUBLISHED), 0, 1531420618);
    expect(
      codeOf(() =>
        source.verify(requestOf(PUBLISHED, { ...headers, "x-slack-request-timestamp": String(NOW_S) }), NOW),
      ),
    ).toBe("signature_mismatch");
  });
});
