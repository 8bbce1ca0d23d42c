import type Stripe from "stripe";
import { OncewardError } from "../errors.ts";
import { decodeHex, fingerprintOf } from "./bytes.ts";
import { hmacKeys, hmacMatches, hmacOf } from "./hmac.ts";
import { accountWord, at, hintWord, readObject, readParts, unreadable, word } from "./json.ts";
import { malformed, MAX_SIGNATURES, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type Secrets } from "./secrets.ts";
import { partsOf } from "./skim.ts";
import type { Identity, Source } from "./source.ts";
import { oncePerObject } from "./stripe-once.ts";
import { withRelatedObject, type StripeClient, type StripeThinEvent } from "./stripe-thin.ts";
import { checkAge, dateFromSeconds, dateFromText, readTimestamp, toleranceOption } from "./timestamp.ts";

export type { StripeClient, StripeThinEvent } from "./stripe-thin.ts";

/** Snapshot events as Stripe types them, and thin events with the object they are about. */
export type StripeEvents = { [E in Stripe.Event as E["type"]]: E } & {
  [N in Stripe.V2.Core.EventNotification as N["type"]]: StripeThinEvent<N>;
};

export interface StripeOptions {
  /** The endpoint's signing secrets (`whsec_…`); several while rolling, or for account and Connect endpoints on one URL. */
  secrets: Secrets;
  /** How far the signed timestamp may be from now, in either direction, in seconds. Default 300. */
  tolerance?: number;
  /**
   * Refuses events of the other mode. Left out, both are taken, in different scopes: right for a live
   * Connect endpoint, which gets test events too, and whose refusals Stripe would retry for days.
   */
  livemode?: boolean;
  /** Stripe's client; only needed for thin events, whose object it fetches. */
  client?: StripeClient;
  /** Default `stripe`. Part of the scope: give each of several Stripe accounts its own. */
  name?: string;
}

const HEADER = "stripe-signature";

/** What identifies an event, snapshot or thin. */
const PARTS = partsOf({
  object: true,
  id: true,
  type: true,
  created: true,
  livemode: true,
  account: true,
  context: true,
  data: { object: { id: true } },
  related_object: { id: true },
});

/**
 * Events of Stripe, snapshot and thin. A thin event whose type begins with `v1.` mirrors a snapshot
 * event, which it names in `snapshot_event`; an endpoint that gets both has two events of one fact,
 * so let the handlers of both take the same effect key.
 */
export function stripe(options: StripeOptions): Source<StripeEvents> {
  const name = sourceName(options.name ?? "stripe");
  const { livemode: wanted, client } = options;
  const tolerance = toleranceOption(name, options.tolerance);
  const keys = secretKeys(
    name,
    options.secrets,
    {
      where:
        "The endpoint's signing secret is in the Stripe Dashboard under Webhooks, or printed by `stripe listen`",
      mistaken: { sk_: "a secret API key", rk_: "a restricted API key", pk_: "a publishable API key" },
      diagnose: (secret) => (/^whsec_./.test(secret) ? undefined : "does not begin with whsec_"),
    },
    hmacKeys,
  );

  return {
    name,
    check: () => void keys(),
    oncePerObject,

    verify(request, now) {
      const { timestamp, candidates } = parseHeader(name, signatureHeader(name, request, HEADER));
      const seconds = readTimestamp(name, timestamp);
      // The key is the whole secret with its prefix; what is signed is the timestamp as it was written.
      const genuine = hmacMatches({
        algorithm: "sha256",
        keys: keys(),
        prefix: `${timestamp}.`,
        body: request.body,
        candidates,
      });
      if (!genuine)
        throw mismatch(
          name,
          request,
          "the secret is another endpoint's (each endpoint has its own, `stripe listen` too)",
        );
      checkAge(name, seconds, now, tolerance);
    },

    identify({ body }): Identity {
      const event = readParts(name, body, PARTS);
      const kind = at(event, "object");
      if (kind !== "event" && kind !== "v2.core.event") throw unreadable(name, "holds no Stripe event");
      const thin = kind === "v2.core.event";
      const livemode = at(event, "livemode");
      if (typeof livemode !== "boolean") throw unreadable(name, "does not say whether it is live");
      if (wanted !== undefined && livemode !== wanted) throw otherMode(name, livemode);

      const type = word(name, "type", at(event, "type"));
      const account = accountWord(name, at(event, thin ? "context" : "account"));
      const objectId = hintWord(thin ? at(event, "related_object", "id") : at(event, "data", "object", "id"));
      const created = at(event, "created");
      // Not over the body: pending_webhooks and the API version differ between deliveries of one id.
      // Twins may differ in `created`, and for types keyed by object they must compare as equal. Account and mode
      // are in the scope; an event that the API lists for an account does not name it as its delivery does.
      const moment = oncePerObject.has(type) ? undefined : hintWord(created);
      return {
        id: word(name, "id", at(event, "id")),
        type,
        account,
        livemode,
        objectId,
        fingerprint: fingerprintOf([type, objectId, moment]),
        createdAt: thin ? dateFromText(created) : dateFromSeconds(created),
      };
    },

    sample(now) {
      const created = Math.floor(now / 1000);
      const body = Buffer.from(
        JSON.stringify({
          id: "evt_sample",
          object: "event",
          created,
          livemode: wanted ?? false,
          type: "charge.succeeded",
          data: { object: { id: "ch_sample", object: "charge" } },
        }),
      );
      const v1 = hmacOf("sha256", keys()[0]!, `${created}.`, body).toString("hex");
      return { body, header: (header) => (header === HEADER ? `t=${created},v1=${v1}` : undefined) };
    },

    read(body) {
      return readObject(name, body);
    },

    parse(body) {
      const event = readObject(name, body);
      return at(event, "object") === "v2.core.event" ? withRelatedObject(name, event, client) : event;
    },
  };
}

/** `t=…,v1=…[,v1=…]`. Other schemes (`v0` for test events) are passed over: they must not decide. */
function parseHeader(source: string, header: string): { timestamp: string; candidates: Buffer[] } {
  let timestamp: string | undefined;
  const candidates: Buffer[] = [];
  for (const item of header.split(",")) {
    const entry = item.trim();
    if (entry.startsWith("t=")) {
      if (timestamp !== undefined) throw malformed(source, HEADER, "has two timestamps");
      timestamp = entry.slice(2);
    } else if (entry.startsWith("v1=")) {
      const candidate = decodeHex(entry.slice(3), 32);
      if (candidate === undefined)
        throw malformed(source, HEADER, "has a v1 signature that is not 64 hex digits");
      if (candidates.length === MAX_SIGNATURES)
        throw malformed(source, HEADER, `has more than ${MAX_SIGNATURES} signatures`);
      candidates.push(candidate);
    }
  }
  if (timestamp === undefined) throw malformed(source, HEADER, "has no timestamp");
  if (candidates.length === 0) throw malformed(source, HEADER, "has no v1 signature");
  return { timestamp, candidates };
}

function otherMode(source: string, livemode: boolean): OncewardError {
  const [got, want] = livemode ? ["live", "test"] : ["test", "live"];
  return new OncewardError(
    "livemode_mismatch",
    `${source}: a ${got} event reached an endpoint for ${want} events. Leave \`livemode\` out to take both, in scopes of their own`,
  );
}
