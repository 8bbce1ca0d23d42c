import { decodeHex, fingerprintOf } from "./bytes.ts";
import { ed25519Key, ed25519Matches, PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from "./ed25519.ts";
import {
  accountWord,
  at,
  isObject,
  readObject,
  readParts,
  unreadable,
  word,
  type JsonObject,
} from "./json.ts";
import { malformed, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type SecretRules, type Secrets } from "./secrets.ts";
import { partsOf } from "./skim.ts";
import type { Identity, ProtocolReply, Reply, Source } from "./source.ts";
import { checkAge, dateFromText, readTimestamp, toleranceOption } from "./timestamp.ts";

export interface DiscordOptions {
  /** The application's public key, in hex; several for several applications on one URL. */
  publicKeys: Secrets;
  /** How far the signed timestamp may be from now, in either direction, in seconds. Default 300. */
  tolerance?: number;
  /** Default `discord`. Part of the scope. */
  name?: string;
}

const SIGNATURE = "x-signature-ed25519";
const TIMESTAMP = "x-signature-timestamp";

/** What identifies an interaction, or an event. */
const PARTS = partsOf({ type: true, id: true, guild_id: true, event: { type: true, timestamp: true } });

/**
 * The kinds of interaction by number, and what to answer at once: Discord waits 3 s. "Deferred" shows
 * the user that work goes on; the handler, or a job, then edits the message through the API.
 */
const INTERACTIONS: Readonly<Record<number, { type: string; answer: unknown }>> = {
  2: { type: "application_command", answer: { type: 5 } },
  3: { type: "message_component", answer: { type: 6 } },
  // Choices cannot be deferred: a list that must be filled as the user types is no work to do once.
  4: { type: "application_command_autocomplete", answer: { type: 8, data: { choices: [] } } },
  5: { type: "modal_submit", answer: { type: 5 } },
};

/** Interactions and webhook events of a Discord application. */
export function discord<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: DiscordOptions,
): Source<Events> {
  const name = sourceName(options.name ?? "discord");
  const tolerance = toleranceOption(name, options.tolerance);
  const rules: SecretRules = {
    option: "publicKeys",
    where: "The public key is in the Discord Developer Portal under General Information",
    diagnose: (key) =>
      decodeHex(key, PUBLIC_KEY_BYTES) === undefined
        ? "is not a public key: 64 lower-case hex digits"
        : undefined,
  };
  const keys = secretKeys(name, options.publicKeys, rules, (list) =>
    list.map((key) => ed25519Key(Buffer.from(key, "hex"))),
  );

  return {
    name,
    check: () => void keys(),
    // Discord probes endpoints with false signatures, and takes away those that do not answer 401.
    refusalStatus: 401,

    verify(request, now) {
      const candidate = decodeHex(signatureHeader(name, request, SIGNATURE), SIGNATURE_BYTES);
      if (candidate === undefined) throw malformed(name, SIGNATURE, "is not 128 hex digits");
      const timestamp = signatureHeader(name, request, TIMESTAMP);
      const seconds = readTimestamp(name, timestamp);
      // Nothing stands between timestamp and body. It is one reading all the same: a body begins with "{".
      const genuine = ed25519Matches({
        keys: keys(),
        prefix: timestamp,
        body: request.body,
        candidates: [candidate],
      });
      if (!genuine) throw mismatch(name, request, "the public key is another application's");
      checkAge(name, seconds, now, tolerance);
    },

    identify({ body }): Identity | ProtocolReply {
      const message = readParts(name, body, PARTS);
      const kind = at(message, "type");
      if (isObject(at(message, "event"))) return identifyEvent(name, message, body);
      if (kind === 0) return { reply: { status: 204, body: "" } };
      if (kind === 1) return { reply: json({ type: 1 }) };
      if (typeof kind !== "number" || !Number.isSafeInteger(kind))
        throw unreadable(name, "holds neither an interaction nor an event");
      const known = Object.hasOwn(INTERACTIONS, kind) ? INTERACTIONS[kind] : undefined;
      return {
        id: word(name, "id", at(message, "id")),
        type: known?.type ?? `interaction_${kind}`,
        account: accountWord(name, at(message, "guild_id")),
        fingerprint: fingerprintOf([], body),
        acknowledge: json(known?.answer ?? { type: 5 }),
      };
    },

    parse(body) {
      return readObject(name, body);
    },
  };
}

/**
 * Webhook events have no id. Their body has the time of the event, to the microsecond, so that
 * equal bodies are one event delivered again, and the hash of all of it can be the identity.
 */
function identifyEvent(source: string, message: JsonObject, body: Uint8Array): Identity {
  const type = word(source, "type", at(message, "event", "type"));
  const timestamp = at(message, "event", "timestamp");
  const createdAt = dateFromText(timestamp);
  if (createdAt === undefined) throw unreadable(source, "its event has no timestamp");
  return {
    id: word(source, "id", `${type}:${createdAt.toISOString()}:${fingerprintOf([], body).slice(0, 32)}`),
    type,
    createdAt,
    acknowledge: { status: 204, body: "" },
  };
}

function json(value: unknown): Reply {
  return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}
