/** `bytes → verify → identify → record → run now, or by a worker → answer`: one pipeline for every adapter. */
import { OncewardError, type ErrorCode } from "../errors.ts";
import { errorName } from "../observe.ts";
import { quietly } from "../quietly.ts";
import type { Identity, Reply, Source } from "../source/source.ts";
import { answer, answerOf } from "./answer.ts";
import { alreadyDecompressed, isEncoded, tooLarge } from "./body.ts";
import type { Answer, Delivery, Receiver } from "./delivery.ts";

/** What became of a genuine event, and what the sender is told of it. */
export interface Received {
  readonly outcome: "accepted" | "done" | "duplicate" | "ignored" | "parked" | "conflict" | "failed" | "busy";
  readonly scope: string;
  readonly key: string;
}

/** One line about one request, for logs and metrics. It never holds a payload, a header or a secret. */
export interface Receipt {
  readonly source: string;
  readonly status: number;
  /** `refused` for what was not taken as an event, `replied` for a ping or a challenge. */
  readonly outcome: Received["outcome"] | "refused" | "replied" | "error";
  /** The error's stable code, or `internal`, where there was one. */
  readonly code?: ErrorCode | "internal" | undefined;
  /** Of what was thrown on our side, which the sender is not told: its code, such as an SQLSTATE, or its class. */
  readonly error?: string | undefined;
  /** Of genuine events alone. */
  readonly id?: string | undefined;
  readonly type?: string | undefined;
  readonly scope?: string | undefined;
  readonly key?: string | undefined;
  readonly ms: number;
}

export interface ReceiverOptions {
  readonly source: Source;
  readonly maxBytes: number;
  /** Records the event, and runs it or leaves it to a worker. */
  take(identity: Identity, body: Uint8Array): Promise<Received>;
  /** Gets the error too where it is not the sender's fault: whoever set this up has to learn of it. */
  readonly log?: ((receipt: Receipt, error?: unknown) => void) | undefined;
}

/** Codes of requests that are not genuine. */
const notGenuine: ReadonlySet<ErrorCode> = new Set([
  "signature_missing",
  "signature_malformed",
  "signature_mismatch",
  "timestamp_too_old",
  "timestamp_in_future",
]);

const good = {
  accepted: outcomeAnswer("accepted"),
  done: outcomeAnswer("done"),
  duplicate: outcomeAnswer("duplicate"),
  ignored: outcomeAnswer("ignored"),
  parked: outcomeAnswer("parked"),
  conflict: outcomeAnswer("conflict"),
} as const;

/** Never 200: that would end the sender's retries, and if the runner dies the event is lost. */
const busy = answerOf(
  new OncewardError(
    "already_running",
    "this event is being handled already, or waits for its turn: try again",
  ),
);
const failed = answerOf(new OncewardError("handler_failed", "the handler failed"));
const wrongMethod = answerOf(new OncewardError("method_not_allowed", "events are sent with POST"));
const noBody = answerOf(
  new OncewardError(
    "body_missing",
    "the request has no body; if it was sent with one, something read it before",
  ),
);

/** What a step of the pipeline found out about a request, besides the answer. */
type Found = Omit<Receipt, "source" | "status" | "error" | "ms">;

export function createReceiver(options: ReceiverOptions): Receiver {
  const { source, maxBytes, take, log } = options;
  const refusal = source.refusalStatus;

  async function receive(delivery: Delivery): Promise<[Answer, Found, unknown?]> {
    const { body } = delivery;
    if (delivery.method !== "POST") return [wrongMethod, refused("method_not_allowed")];
    if (isEncoded(delivery.header("content-encoding"))) return [alreadyDecompressed, refused("body_encoded")];
    if (body.length > maxBytes) return [tooLarge, refused("body_too_large")];
    if (body.length === 0) return [noBody, refused("body_missing")];

    let identity: Identity;
    try {
      const request = { body, header: (name: string) => delivery.header(name) };
      // A promise would be a signature that nobody has waited for.
      const verified: unknown = source.verify(request, Date.now());
      if (verified instanceof Promise) throw notAtOnce(verified);
      const identified = source.identify(request);
      if (identified instanceof Promise) throw notAtOnce(identified);
      if ("reply" in identified) return [replyAnswer(identified.reply), { outcome: "replied" }];
      identity = identified;
    } catch (error) {
      return [refusalAnswer(error), refused(codeOf(error)), error];
    }

    const { id, type } = identity;
    try {
      const { outcome, scope, key } = await take(identity, body);
      const found = { outcome, id, type, scope, key };
      if (outcome === "failed") return [failed, { ...found, code: "handler_failed" }];
      if (outcome === "busy") return [busy, { ...found, code: "already_running" }];
      return [identity.acknowledge ? replyAnswer(identity.acknowledge) : good[outcome], found];
    } catch (error) {
      return [answerOf(error), { outcome: "error", code: codeOf(error), id, type }, error];
    }
  }

  /** Some senders probe with false signatures, and expect a status of their own. */
  function refusalAnswer(error: unknown): Answer {
    const made = answerOf(error);
    if (refusal === undefined || !(error instanceof OncewardError) || !notGenuine.has(error.code))
      return made;
    return { ...made, status: refusal };
  }

  return {
    maxBytes,
    async receive(delivery) {
      if (!log) return (await receive(delivery))[0];
      const began = performance.now();
      const [made, found, thrown] = await receive(delivery);
      const ours = isOurs(thrown) && { error: errorName(thrown) };
      const ms = performance.now() - began;
      quietly(() =>
        log({ source: source.name, status: made.status, ...found, ...ours, ms }, ours ? thrown : undefined),
      );
      return made;
    },
  };
}

function notAtOnce(promise: Promise<unknown>): OncewardError {
  promise.catch(() => undefined);
  return new OncewardError(
    "config_invalid",
    "verify and identify of a source are not async: they answer at once",
  );
}

function refused(code: ErrorCode | "internal"): Found {
  return { outcome: "refused", code };
}

/** Whether something is wrong here, and not with the request. */
function isOurs(thrown: unknown): boolean {
  return thrown !== undefined && !(thrown instanceof OncewardError && thrown.status < 500);
}

function codeOf(error: unknown): ErrorCode | "internal" {
  return error instanceof OncewardError ? error.code : "internal";
}

function outcomeAnswer(outcome: string): Answer {
  return Object.freeze(answer(200, { outcome }));
}

function replyAnswer({ status, headers = {}, body }: Reply): Answer {
  return { status, headers, body };
}
