import { decodeHex, fingerprintOf } from "./bytes.ts";
import { formFields } from "./form.ts";
import { hmacKeys, hmacMatches } from "./hmac.ts";
import {
  accountWord,
  at,
  hintWord,
  isObject,
  optionalWord,
  parseObject,
  readText,
  unreadable,
  word,
  type JsonObject,
} from "./json.ts";
import { malformed, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type Secrets } from "./secrets.ts";
import { partsOf, skim } from "./skim.ts";
import type { Identity, ProtocolReply, Reply, Source } from "./source.ts";
import { checkAge, dateFromSeconds, readTimestamp, toleranceOption } from "./timestamp.ts";

export interface SlackOptions {
  /** The app's signing secrets. */
  secrets: Secrets;
  /** How far the signed timestamp may be from now, in either direction, in seconds. Default 300. */
  tolerance?: number;
  /** Default `slack`. Part of the scope. */
  name?: string;
}

const SIGNATURE = "x-slack-signature";
const TIMESTAMP = "x-slack-request-timestamp";
const PREFIX = "v0=";

/** What tells the kinds of messages apart, and what identifies each. */
const PARTS = partsOf({
  type: true,
  event: { type: true },
  event_id: true,
  event_time: true,
  trigger_id: true,
  view: { id: true },
  team_id: true,
  team: { id: true },
  enterprise_id: true,
  enterprise: { id: true },
  command: true,
  ssl_check: true,
  challenge: true,
  minute_rate_limited: true,
});

/** Whatever stands in the answer to a command or an interaction is shown to the user, or taken as an instruction. */
const SILENCE: Reply = { status: 200, body: "" };

/** Menus that are filled as the user types cannot wait, so they are no work to do once, and have no id of their own. */
const NO_OPTIONS: Reply = {
  status: 200,
  headers: { "content-type": "application/json" },
  body: '{"options":[]}',
};

/**
 * Events, interactions and slash commands of a Slack app. The type is the inner event's (`app_mention`),
 * the interaction's (`block_actions`, `view_submission`), or `slash_command`.
 *
 * Retries (`x-slack-retry-num`) carry the same `event_id`, so they are duplicates by id; the header,
 * which is not signed, decides nothing.
 */
export function slack<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: SlackOptions,
): Source<Events> {
  const name = sourceName(options.name ?? "slack");
  const tolerance = toleranceOption(name, options.tolerance);
  const keys = secretKeys(
    name,
    options.secrets,
    {
      where: "The signing secret is in the app's settings under Basic Information",
      mistaken: { "xoxb-": "a bot token", "xoxp-": "a user token", "xapp-": "an app-level token" },
    },
    hmacKeys,
  );

  return {
    name,
    check: () => void keys(),

    verify(request, now) {
      const header = signatureHeader(name, request, SIGNATURE);
      const candidate = header.startsWith(PREFIX) ? decodeHex(header.slice(PREFIX.length), 32) : undefined;
      if (candidate === undefined) throw malformed(name, SIGNATURE, "is not v0= and 64 hex digits");
      const timestamp = signatureHeader(name, request, TIMESTAMP);
      const seconds = readTimestamp(name, timestamp);
      const prefix = `v0:${timestamp}:`;
      const genuine = hmacMatches({
        algorithm: "sha256",
        keys: keys(),
        prefix,
        body: request.body,
        candidates: [candidate],
      });
      if (!genuine) throw mismatch(name, request, "the signing secret is another app's");
      checkAge(name, seconds, now, tolerance);
    },

    identify({ body }): Identity | ProtocolReply {
      const message = skim(body, PARTS) ?? readMessage(name, body);
      if (at(message, "ssl_check") === "1") return { reply: SILENCE };
      if (typeof at(message, "command") === "string") return identifyCommand(name, message);
      if (at(message, "type") === "url_verification") {
        const challenge = word(name, "challenge", at(message, "challenge"));
        return { reply: { status: 200, headers: { "content-type": "text/plain" }, body: challenge } };
      }
      if (at(message, "type") === "block_suggestion") return { reply: NO_OPTIONS };
      if (at(message, "type") === "app_rate_limited") return identifyRateLimit(name, message);
      return isObject(at(message, "event"))
        ? identifyEvent(name, message)
        : identifyInteraction(name, message, body);
    },

    parse(body) {
      return readMessage(name, body);
    },
  };
}

/** Events come as JSON; commands as a form; interactions as JSON in the field `payload` of a form. */
function readMessage(source: string, body: Uint8Array): JsonObject {
  const text = readText(source, body);
  if (/^\s*\{/.test(text)) return parseObject(source, text);
  const fields = formFields(text);
  return fields.payload === undefined ? fields : parseObject(source, fields.payload);
}

function identifyEvent(source: string, message: JsonObject): Identity {
  const type = word(source, "event type", at(message, "event", "type"));
  const id = word(source, "event_id", at(message, "event_id"));
  const account = accountOf(source, message);
  const time = at(message, "event_time");
  return {
    id,
    type,
    account,
    // Not over the body: it lists who may see the event, which can change between a delivery and its retry.
    fingerprint: fingerprintOf([type, account, hintWord(time)]),
    createdAt: dateFromSeconds(time),
  };
}

function identifyCommand(source: string, message: JsonObject): Identity {
  return {
    // Made anew for every use of a command.
    id: word(source, "trigger_id", at(message, "trigger_id")),
    type: "slash_command",
    account: accountOf(source, message),
    acknowledge: SILENCE,
  };
}

function identifyInteraction(source: string, message: JsonObject, body: Uint8Array): Identity {
  const type = word(source, "type", at(message, "type"));
  const trigger = optionalWord(source, "trigger_id", at(message, "trigger_id"));
  const view = optionalWord(source, "view id", at(message, "view", "id"));
  if (trigger === undefined && view === undefined)
    throw unreadable(source, "it has neither event_id nor trigger_id");
  return {
    // Closing a view triggers nothing, and has no trigger: the view and its state say which one it was.
    id: trigger ?? word(source, "view id", `${type}:${view}:${fingerprintOf([], body).slice(0, 16)}`),
    type,
    account: accountOf(source, message),
    objectId: view,
    acknowledge: SILENCE,
  };
}

function identifyRateLimit(source: string, message: JsonObject): Identity {
  const minute = word(source, "minute_rate_limited", at(message, "minute_rate_limited"));
  return { id: `app_rate_limited:${minute}`, type: "app_rate_limited", account: accountOf(source, message) };
}

/** The workspace; for an app installed on a whole organization, which may have none, the organization. */
function accountOf(source: string, message: JsonObject): string | undefined {
  const ids = [["team_id"], ["team", "id"], ["enterprise_id"], ["enterprise", "id"]].map((path) =>
    at(message, ...path),
  );
  return accountWord(
    source,
    ids.find((id) => typeof id === "string" && id !== ""),
  );
}
