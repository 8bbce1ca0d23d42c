import { decodeBase64, fingerprintOf } from "./bytes.ts";
import { ed25519Key, ed25519Matches, PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from "./ed25519.ts";
import { hmacKeys, hmacMatches } from "./hmac.ts";
import { accountWord, at, found, hintWord, readObject, unreadable, word, type JsonObject } from "./json.ts";
import { malformed, MAX_SIGNATURES, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type SecretRules, type Secrets } from "./secrets.ts";
import type { Identity, SignedRequest, Source } from "./source.ts";
import { checkAge, dateFromText, readTimestamp, toleranceOption } from "./timestamp.ts";

export interface StandardWebhooksOptions {
  /** Who sends: `clerk`, `resend`, `openai`, `supabase`, … Part of the scope. */
  name: string;
  /** `whsec_…` (HMAC) and `whpk_…` (ed25519 public keys), in any mixture. */
  secrets: Secrets;
  /** How far the signed timestamp may be from now, in either direction, in seconds. Default 300. */
  tolerance?: number;
  /** Says the type where the body has no `type`: Supabase Auth hooks, for one. */
  type?: (body: JsonObject) => string;
  /** Says whose event it is, where one endpoint serves several accounts. */
  account?: (body: JsonObject) => string | undefined;
}

/** Each costs a verification of its own (0.1 ms), unlike an HMAC; senders sign with one key, or two while rolling. */
const MAX_ED25519_SIGNATURES = 4;

/** Senders by the Standard Webhooks specification, and Svix: Clerk, Resend, OpenAI, Supabase Auth and many more. */
export function standardWebhooks<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: StandardWebhooksOptions,
): Source<Events> {
  const name = sourceName(options.name);
  const tolerance = toleranceOption(name, options.tolerance);
  const keys = readSecrets(name, options.secrets);

  return {
    name,
    check: () => void keys(),

    verify(request, now) {
      const { id, timestamp, signature, header } = readHeaders(name, request);
      const seconds = readTimestamp(name, timestamp);
      const { v1, v1a } = parseSignatures(name, header, signature);
      const { body } = request;
      const prefix = `${id}.${timestamp}.`;
      const { hmac, ed25519 } = keys();
      const genuine =
        hmacMatches({ algorithm: "sha256", keys: hmac, prefix, body, candidates: v1 }) ||
        ed25519Matches({ keys: ed25519, prefix, body, candidates: v1a });
      if (!genuine) throw mismatch(name, request, "the secret is another endpoint's");
      checkAge(name, seconds, now, tolerance);
    },

    identify(request): Identity {
      const event = readObject(name, request.body);
      const type = found(name, "type", () =>
        options.type === undefined ? at(event, "type") : options.type(event),
      );
      if (type === undefined)
        throw unreadable(name, "has no `type`: tell the source how to find it, with the option `type`");
      return {
        id: word(name, "id", readHeaders(name, request).id),
        type: word(name, "type", type),
        account: accountWord(
          name,
          found(name, "account", () => options.account?.(event)),
        ),
        objectId: hintWord(at(event, "data", "id")),
        fingerprint: fingerprintOf([], request.body),
        createdAt: dateFromText(at(event, "timestamp")),
      };
    },

    parse(body) {
      return readObject(name, body);
    },
  };
}

function readSecrets(source: string, secrets: Secrets) {
  // Supabase shows secrets as "v1,whsec_…".
  const bare = (secret: string) => secret.replace(/^v1a?,/, "");
  const rules: SecretRules = {
    where: "Secrets are whsec_… or whpk_… followed by base64, as the sender shows them for this endpoint",
    mistaken: { whsk_: "the sender's private key", "v1a,whsk_": "the sender's private key" },
    diagnose: (secret) =>
      decodeSecret(bare(secret)) === undefined ? "is not base64 (of 32 bytes, for whpk_)" : undefined,
  };
  return secretKeys(source, secrets, rules, (list) => {
    const hmac: Buffer[] = [];
    const ed25519: Buffer[] = [];
    for (const secret of list) {
      const bytes = decodeSecret(bare(secret));
      if (bytes !== undefined) (bare(secret).startsWith("whpk_") ? ed25519 : hmac).push(bytes);
    }
    return { hmac: hmacKeys(hmac), ed25519: ed25519.map(ed25519Key) };
  });
}

function decodeSecret(secret: string): Buffer | undefined {
  if (secret.startsWith("whpk_")) return decodeBase64(secret.slice(5), PUBLIC_KEY_BYTES);
  return decodeBase64(secret.startsWith("whsec_") ? secret.slice(6) : secret);
}

/** `webhook-*`, or `svix-*` where those are absent; never a mixture. */
function readHeaders(source: string, request: SignedRequest) {
  const family =
    request.header("webhook-id") === undefined && request.header("svix-id") !== undefined
      ? "svix"
      : "webhook";
  const id = signatureHeader(source, request, `${family}-id`);
  // What is signed is "id.timestamp.body": with a dot in the id, one signature would fit two readings.
  if (!/^[\x21-\x2d\x2f-\x7e]{1,255}$/.test(id)) {
    throw malformed(source, `${family}-id`, "is not 1 to 255 visible ASCII characters without a full stop");
  }
  return {
    id,
    timestamp: signatureHeader(source, request, `${family}-timestamp`),
    signature: signatureHeader(source, request, `${family}-signature`),
    header: `${family}-signature`,
  };
}

/** `v1,base64 v1a,base64 …`. Other versions are passed over. */
function parseSignatures(source: string, header: string, text: string): { v1: Buffer[]; v1a: Buffer[] } {
  const v1: Buffer[] = [];
  const v1a: Buffer[] = [];
  // A list that came as two headers is joined by ", ": hence the comma at the end of an entry.
  for (const entry of text.split(" ").map((item) => item.replace(/,$/, ""))) {
    const comma = entry.indexOf(",");
    const version = entry.slice(0, Math.max(comma, 0));
    if (version !== "v1" && version !== "v1a") continue;
    const length = version === "v1" ? 32 : SIGNATURE_BYTES;
    const candidate = decodeBase64(entry.slice(comma + 1), length);
    if (candidate === undefined)
      throw malformed(source, header, `has a ${version} signature that is not base64 of ${length} bytes`);
    (version === "v1" ? v1 : v1a).push(candidate);
    if (v1.length > MAX_SIGNATURES || v1a.length > MAX_ED25519_SIGNATURES)
      throw malformed(source, header, "has too many signatures");
  }
  if (v1.length + v1a.length === 0) throw malformed(source, header, "has no v1 or v1a signature");
  return { v1, v1a };
}
