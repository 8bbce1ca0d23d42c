import { OncewardError } from "../errors.ts";
import { decodeBase64, decodeHex, fingerprintOf } from "./bytes.ts";
import { digestLength, hmacKeys, hmacMatches, type HmacAlgorithm } from "./hmac.ts";
import { accountWord, found, hintWord, readObject, word, type JsonObject } from "./json.ts";
import { malformed, mismatch, signatureHeader } from "./request.ts";
import { secretKeys, sourceName, type Secrets } from "./secrets.ts";
import type { HeaderReader, Identity, Source } from "./source.ts";
import { checkAge, readTimestamp, toleranceOption } from "./timestamp.ts";

/** Reads one thing off a genuine request. Anything that is not a string or a whole number refuses the request. */
export type FieldReader = (request: { readonly body: JsonObject; readonly header: HeaderReader }) => unknown;

export interface SignedOptions {
  /** Who sends. Part of the scope. */
  name: string;
  secrets: Secrets;
  signature: {
    /** The header with the signature, in lower case. */
    header: string;
    /** Default `sha256`. */
    algorithm?: HmacAlgorithm;
    /** Default `hex`, in either case. */
    encoding?: "hex" | "base64";
    /** What stands before the signature in the header, such as `sha256=`. */
    prefix?: string;
  };
  /** Where the sender signs the time. Without it a captured request stays valid for ever. */
  timestamp?: {
    /** The header with the Unix time in seconds, in lower case. */
    header: string;
    /** What is signed in front of the body; for most senders the time and a full stop. */
    signed: (timestamp: string) => string;
    /** In either direction, in seconds. Default 300. */
    tolerance?: number;
  };
  /** The sender's id of the event: equal in every delivery of it, and in none of another. */
  id: FieldReader;
  type: FieldReader;
  /** Whose event it is, where one endpoint serves several accounts. */
  account?: FieldReader;
  /** What the event is about: for serial execution. */
  objectId?: FieldReader;
}

/** A source for any sender that signs JSON with an HMAC in a header. */
export function signed<Events extends Record<string, unknown> = Record<string, JsonObject>>(
  options: SignedOptions,
): Source<Events> {
  const name = sourceName(options.name);
  const { header, algorithm = "sha256", encoding = "hex", prefix = "" } = options.signature;
  const { timestamp } = options;
  const tolerance = toleranceOption(name, timestamp?.tolerance);
  const keys = secretKeys(
    name,
    options.secrets,
    { where: "It is the secret that the sender signs with", chosen: true },
    hmacKeys,
  );
  for (const headerName of [header, timestamp?.header ?? header]) checkHeaderName(name, headerName);

  const decode = (text: string): Buffer | undefined =>
    encoding === "hex"
      ? decodeHex(text.toLowerCase(), digestLength[algorithm])
      : decodeBase64(text, digestLength[algorithm]);

  return {
    name,
    check: () => void keys(),

    verify(request, now) {
      const value = signatureHeader(name, request, header);
      const candidate = value.startsWith(prefix) ? decode(value.slice(prefix.length)) : undefined;
      if (candidate === undefined) {
        throw malformed(
          name,
          header,
          `is not ${prefix === "" ? "" : `${prefix} and `}${encoding} of ${digestLength[algorithm]} bytes`,
        );
      }
      const time = timestamp === undefined ? undefined : signatureHeader(name, request, timestamp.header);
      const seconds = time === undefined ? undefined : readTimestamp(name, time);
      const before = timestamp === undefined || time === undefined ? "" : timestamp.signed(time);
      if (
        !hmacMatches({ algorithm, keys: keys(), prefix: before, body: request.body, candidates: [candidate] })
      ) {
        throw mismatch(name, request, "the secret is another endpoint's");
      }
      if (seconds !== undefined) checkAge(name, seconds, now, tolerance);
    },

    identify(request): Identity {
      const body = readObject(name, request.body);
      const read = (what: string, reader: FieldReader | undefined) =>
        found(name, what, () => reader?.({ body, header: request.header }));
      return {
        id: word(name, "id", read("id", options.id)),
        type: word(name, "type", read("type", options.type)),
        account: accountWord(name, read("account", options.account)),
        objectId: hintWord(read("object id", options.objectId)),
        fingerprint: fingerprintOf([], request.body),
      };
    },

    parse(body) {
      return readObject(name, body);
    },
  };
}

function checkHeaderName(source: string, header: string): void {
  if (/^[a-z0-9-]+$/.test(header)) return;
  throw new OncewardError(
    "config_invalid",
    `${source}: names of headers are given in lower case, such as x-acme-signature`,
  );
}
