import { decodeHex, fingerprintOf } from "./bytes.ts";
import { formField } from "./form.ts";
import { hmacKeys, hmacMatches } from "./hmac.ts";
import {
  accountWord,
  at,
  hintWord,
  optionalWord,
  parseObject,
  readText,
  unreadable,
  word,
  type JsonObject,
} from "./json.ts";
import { identityHeader, malformed, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type Secrets } from "./secrets.ts";
import { partsOf, skim } from "./skim.ts";
import type { Identity, Source } from "./source.ts";

export interface GithubOptions {
  secrets: Secrets;
  /** Default `github`. Part of the scope. */
  name?: string;
}

const HEADER = "x-hub-signature-256";
const PREFIX = "sha256=";

/** By whom an event is accounted for, most special first. */
const OWNERS = ["installation", "organization", "repository"];

/** Objects of which one event tells, most special first. */
const OBJECTS = [
  "pull_request",
  "issue",
  "discussion",
  "release",
  "deployment",
  "check_run",
  "check_suite",
  "workflow_run",
];

/** What identifies an event, beside its headers. */
const PARTS = partsOf({
  action: true,
  ...Object.fromEntries([...OWNERS, ...OBJECTS].map((name) => [name, { id: true }])),
});

/**
 * Events of GitHub. The type is the event with its action: `push`, `ping`, `issues.opened`.
 *
 * GitHub signs the body alone: no time, no delivery id, no event name. So a request that somebody
 * captured stays valid for ever, and under another delivery id it is another event to anybody who
 * goes by the headers. The delivery id is still the right identity: redeliveries keep it, while two
 * events can have the same body. What is left to do: the fingerprint covers event name and body, so
 * that a known id with anything else is flagged and not run; an effect key taken from the body (a
 * commit, an issue and its action) holds whatever the headers say; and a captured request needs
 * somebody between GitHub and you, which TLS prevents.
 */
export function github<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: GithubOptions,
): Source<Events> {
  const name = sourceName(options.name ?? "github");
  const keys = secretKeys(
    name,
    options.secrets,
    {
      where: "The secret is what was typed into the webhook's settings on GitHub",
      chosen: true,
      mistaken: {
        ghp_: "a personal access token",
        github_pat_: "a personal access token",
        ghs_: "an installation token",
        "-----BEGIN": "a private key",
      },
    },
    hmacKeys,
  );

  return {
    name,
    check: () => void keys(),

    verify(request) {
      const header = signatureHeader(name, request, HEADER);
      const candidate = header.startsWith(PREFIX) ? decodeHex(header.slice(PREFIX.length), 32) : undefined;
      if (candidate === undefined) throw malformed(name, HEADER, "is not sha256= and 64 hex digits");
      const genuine = hmacMatches({
        algorithm: "sha256",
        keys: keys(),
        prefix: "",
        body: request.body,
        candidates: [candidate],
      });
      if (!genuine) throw mismatch(name, request, "the secret is another webhook's");
    },

    identify(request): Identity {
      const event = identityHeader(name, request, "x-github-event");
      const body = skim(request.body, PARTS) ?? readBody(name, request.body);
      const action = optionalWord(name, "action", at(body, "action"));
      return {
        id: identityHeader(name, request, "x-github-delivery"),
        type: word(name, "type", action === undefined ? event : `${event}.${action}`),
        account: accountOf(name, body),
        objectId: objectIdOf(body),
        fingerprint: fingerprintOf([event], request.body),
      };
    },

    parse(body) {
      return readBody(name, body);
    },
  };
}

/** By number, since names change hands. The body is signed, so this is the sender's word. */
function accountOf(source: string, body: JsonObject): string | undefined {
  for (const owner of OWNERS) {
    const id = optionalWord(source, `${owner} id`, at(body, owner, "id"));
    if (id !== undefined) return accountWord(source, `${owner}:${id}`);
  }
  return undefined;
}

function objectIdOf(body: JsonObject): string | undefined {
  for (const object of OBJECTS) {
    const id = hintWord(at(body, object, "id"));
    if (id !== undefined) return `${object}:${id}`;
  }
  return undefined;
}

/** JSON, or a form with the JSON in `payload`, as the webhook's settings say; the signature covers either as sent. */
function readBody(source: string, body: Uint8Array): JsonObject {
  const text = readText(source, body);
  if (!text.startsWith("payload=")) return parseObject(source, text);
  const payload = formField(text, "payload");
  if (payload === undefined) throw unreadable(source, "its form has no payload");
  return parseObject(source, payload);
}
