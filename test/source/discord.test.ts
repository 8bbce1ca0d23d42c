import { generateKeyPairSync, sign as signEd25519 } from "node:crypto";
import { verifyKey } from "discord-interactions";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { discord } from "../../src/source/discord.ts";
import { conformance } from "./conformance.ts";
import { codeOf, identityOf, NOW, NOW_S, receive, refusalOf, requestOf, type Headers } from "./support.ts";

const pairs = [generateKeyPairSync("ed25519"), generateKeyPairSync("ed25519")] as const;
const publicKeys = pairs.map(({ publicKey }) =>
  Buffer.from(publicKey.export({ format: "jwk" }).x!, "base64url").toString("hex"),
);
const BODY = '{"type":2,"id":"846462639134605312","guild_id":"290926798626357999"}';
const source = discord({ publicKeys });

function headersOf(body: Uint8Array, pair: 0 | 1 = 0, seconds = NOW_S): Headers {
  const message = Buffer.concat([Buffer.from(String(seconds)), body]);
  return {
    "x-signature-ed25519": signEd25519(null, message, pairs[pair].privateKey).toString("hex"),
    "x-signature-timestamp": String(seconds),
  };
}

conformance({
  name: "discord",
  source,
  alone: [discord({ publicKeys: publicKeys[0]! }), discord({ publicKeys: publicKeys[1]! })],
  body: BODY,
  sign: headersOf,
  signed: ["x-signature-ed25519", "x-signature-timestamp"],
  timed: true,
  slow: true,
  secrets: [],
});

describe("Discord", () => {
  const answer = (body: object) => {
    const text = JSON.stringify(body);
    return receive(source, requestOf(text, headersOf(Buffer.from(text))));
  };

  it("accepts exactly what Discord's own library accepts, for the same moment", async () => {
    const headers = headersOf(Buffer.from(BODY));
    const signature = headers["x-signature-ed25519"]!;
    const other = fc
      .tuple(
        fc.nat(127),
        fc.integer({ min: 0, max: 15 }).map((digit) => digit.toString(16)),
      )
      .map(([at, digit]) => signature.slice(0, at) + digit + signature.slice(at + 1));
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(other, fc.constant(signature)),
        fc.constantFrom(BODY, `${BODY} `),
        async (value, body) => {
          const theirs = await verifyKey(body, value, headers["x-signature-timestamp"]!, publicKeys[0]!);
          const request = requestOf(body, { ...headers, "x-signature-ed25519": value });
          expect(codeOf(() => source.verify(request, NOW)) === "accepted").toBe(theirs);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("answers pings in the form that Discord wants", () => {
    expect(answer({ type: 1, id: "1" })).toMatchObject({ reply: { status: 200, body: '{"type":1}' } });
    expect(answer({ type: 0, application_id: "1" })).toMatchObject({ reply: { status: 204, body: "" } });
  });

  it("refuses with 401, which Discord probes for", () => {
    expect(source.refusalStatus).toBe(401);
  });

  it.each([
    [2, "application_command", '{"type":5}'],
    [3, "message_component", '{"type":6}'],
    [4, "application_command_autocomplete", '{"type":8,"data":{"choices":[]}}'],
    [5, "modal_submit", '{"type":5}'],
    [99, "interaction_99", '{"type":5}'],
  ])("identifies an interaction and defers the answer: %d", (type, name, body) => {
    expect(answer({ type, id: "846462639134605312", guild_id: "29" })).toMatchObject({
      id: "846462639134605312",
      type: name,
      account: "29",
      acknowledge: { status: 200, body },
    });
  });

  it("identifies a webhook event, which has no id, by its time and its content", () => {
    const event = {
      version: 1,
      application_id: "1",
      type: 1,
      event: { type: "ENTITLEMENT_CREATE", timestamp: "2024-10-18T14:42:53.064834", data: { id: "5" } },
    };
    const identity = identityOf(answer(event));
    expect(identity).toMatchObject({ type: "ENTITLEMENT_CREATE", acknowledge: { status: 204 } });
    expect(identityOf(answer(event)).id).toBe(identity.id);
    expect(identityOf(answer({ ...event, event: { ...event.event, data: { id: "6" } } })).id).not.toBe(
      identity.id,
    );
  });

  it("cannot identify an interaction without an id", () => {
    expect(codeOf(() => answer({ type: 2 }))).toBe("body_unreadable");
    expect(codeOf(() => answer({ type: "2", id: "1" }))).toBe("body_unreadable");
  });

  it.each([
    "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "abcd",
    "g".repeat(64),
    "A".repeat(64),
  ])("says so when something else is given for the public key: %#", (key) => {
    const refusal = refusalOf(() => discord({ publicKeys: key }));
    expect(refusal?.code).toBe("config_invalid");
    expect(refusal?.message).not.toContain(key);
  });
});
