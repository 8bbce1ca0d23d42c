/** Stripe's API through Stripe's own client, as far as a backfill needs it. */
import type Stripe from "stripe";
import { asDriverMissing } from "../../database/driver.ts";
import { OncewardError } from "../../errors.ts";
import { itemTexts } from "./items.ts";

export interface StripeApiOptions {
  readonly apiKey: string;
  /** Where the API is; default "https://api.stripe.com". */
  readonly base?: string | undefined;
  /** The longest that one answer may take. */
  readonly timeoutMs?: number | undefined;
  /** How long to wait before each further try, where Stripe is away or says that there were too many requests. */
  readonly pausesMs?: readonly number[] | undefined;
}

export interface EventQuery {
  /** Unix times in seconds, both included. */
  readonly from: number;
  readonly to: number;
  /** The id after which the page begins; the list has the newest first. */
  readonly after?: string | undefined;
  /** At most 20. */
  readonly types?: readonly string[] | undefined;
  /** Only what was not delivered to each of its endpoints, or not yet. */
  readonly undelivered?: boolean | undefined;
  readonly account?: string | undefined;
}

export interface EventPage {
  /** Each event as the text in which the API gave it. */
  readonly texts: readonly string[];
  readonly more: boolean;
}

export interface Endpoint {
  readonly id: string;
  readonly host: string;
  readonly enabled: boolean;
  /** Types of events that it asks for; "*" is all. */
  readonly types: readonly string[];
}

const defaultTimeoutMs = 20_000;
/** About a minute together: longer than a deployment of theirs, shorter than a tick of ours. */
const defaultPausesMs = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000];
/** The most that Stripe lists at once. */
const pageSize = 100;

/** Thrown where the event at which a page shall begin is not in the list any more. */
export class UnknownPosition extends Error {}

export class StripeApi {
  readonly #client: Stripe;
  readonly #pausesMs: readonly number[];
  /** The body of the latest answer. */
  readonly #latest: { text: string };

  private constructor(client: Stripe, latest: { text: string }, pausesMs: readonly number[]) {
    this.#client = client;
    this.#latest = latest;
    this.#pausesMs = pausesMs;
  }

  static async open({ apiKey, base, timeoutMs, pausesMs }: StripeApiOptions): Promise<StripeApi> {
    const Client = await load();
    const latest = { text: "" };
    const keep: typeof fetch = async (url, init) => {
      const answer = await fetch(url, init);
      latest.text = await answer.text();
      return new Response(latest.text, { status: answer.status, headers: answer.headers });
    };
    const client = new Client(apiKey, {
      ...addressOf(base),
      httpClient: Client.createFetchHttpClient(keep),
      // Tries of ours instead: the client's own know nothing of 429.
      maxNetworkRetries: 0,
      timeout: timeoutMs ?? defaultTimeoutMs,
      telemetry: false,
    });
    return new StripeApi(client, latest, pausesMs ?? defaultPausesMs);
  }

  /** One page of events, the newest first. */
  async events({ from, to, after, types, undelivered, account }: EventQuery): Promise<EventPage> {
    return this.#try(async () => {
      const page = await this.#client.events.list(
        {
          created: { gte: from, lte: to },
          limit: pageSize,
          ...(after !== undefined && { starting_after: after }),
          ...(types && { types: [...types] }),
          ...(undelivered && { delivery_success: false }),
        },
        account === undefined ? {} : { stripeAccount: account },
      );
      const texts = itemTexts(this.#latest.text, "data");
      if (texts.length !== page.data.length)
        throw new OncewardError("sender_refused", "Stripe's list of events could not be read.");
      return { texts, more: page.has_more };
    });
  }

  /** The registered endpoints; undefined where this key may not see them. */
  async endpoints(): Promise<readonly Endpoint[] | undefined> {
    try {
      const { data } = await this.#try(() => this.#client.webhookEndpoints.list({ limit: pageSize }));
      return data.map(({ id, url, status, enabled_events }) => ({
        id,
        host: hostOf(url),
        enabled: status === "enabled",
        types: enabled_events,
      }));
    } catch (error) {
      if (error instanceof OncewardError && error.code === "sender_refused") return undefined;
      throw error;
    }
  }

  async #try<T>(ask: () => Promise<T>): Promise<T> {
    for (const pause of [...this.#pausesMs, undefined]) {
      try {
        return await ask();
      } catch (error) {
        const failure = failureOf(error);
        if (!failure.retry || pause === undefined) throw failure.error;
        await new Promise((resolve) => setTimeout(resolve, Math.max(pause, failure.waitMs)));
      }
    }
    throw new OncewardError("sender_unavailable", "Stripe did not answer.");
  }
}

/** What an error of the client means. Its message is not passed on: it can quote a part of the key. */
function failureOf(error: unknown): {
  readonly error: unknown;
  readonly retry: boolean;
  readonly waitMs: number;
} {
  if (error instanceof OncewardError) return { error, retry: false, waitMs: 0 };
  const { type, statusCode, code, param, headers } = error as Partial<Stripe.errors.StripeError>;
  if (typeof type !== "string") return { error, retry: false, waitMs: 0 };
  if (code === "resource_missing" && param === "starting_after")
    return { error: new UnknownPosition(), retry: false, waitMs: 0 };
  const retry = statusCode === undefined || statusCode === 409 || statusCode === 429 || statusCode >= 500;
  if (retry) {
    const said = statusCode === undefined ? "did not answer" : `answered with ${statusCode}`;
    const unavailable = new OncewardError(
      "sender_unavailable",
      `Stripe's API ${said}, also after several tries. What was fetched so far is kept: the next backfill goes on from there.`,
    );
    return {
      error: unavailable,
      retry,
      waitMs: Math.min(Number(headers?.["retry-after"] ?? 0) * 1_000 || 0, 60_000),
    };
  }
  const why =
    statusCode === 401 || statusCode === 403
      ? "does not accept this API key for it. It needs a secret key, or a restricted one that may read events"
      : `refused the request (${[statusCode, code].filter(Boolean).join(", ")})`;
  return { error: new OncewardError("sender_refused", `Stripe ${why}.`), retry, waitMs: 0 };
}

async function load(): Promise<typeof Stripe> {
  try {
    return (await import("stripe")).default;
  } catch (error) {
    throw asDriverMissing("stripe", error);
  }
}

function addressOf(base: string | undefined): { host?: string; port?: string; protocol?: "http" | "https" } {
  if (base === undefined) return {};
  if (!URL.canParse(base)) throw new OncewardError("config_invalid", "The address of Stripe's API is a URL.");
  const { protocol, hostname, port } = new URL(base);
  return {
    host: hostname,
    protocol: protocol === "http:" ? "http" : "https",
    port: port || (protocol === "http:" ? "80" : "443"),
  };
}

/** What may be shown of an endpoint's URL: its path, its query and what stands before the host can hold secrets. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : "unknown";
}
