/** A Stripe API of our own: pages, filters, forgets after 30 days, and fails as the real one does. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { event, type StripeEvent } from "../handler/support.ts";

export const API_KEY = "sk_live_for_the_tests_alone";

/** How the next request fails: with a status, by no answer, or by a cut connection. */
export type Fault = 401 | 403 | 429 | 500 | 503 | "hang" | "cut";

interface Listed extends StripeEvent {
  /** Not to all endpoints. */
  undelivered?: boolean;
}

const keepsSeconds = 30 * 24 * 3600;

export class FakeStripe {
  readonly #server: Server;
  /** In the order of the list: the newest first. */
  events: Listed[] = [];
  endpoints: object[] = [];
  /** The queries of all requests for events. */
  readonly asked: URLSearchParams[] = [];
  readonly faults: Fault[] = [];
  /** A test will have it not answer. */
  hangs = false;
  /** Called before each page of events is answered. */
  onPage: (query: URLSearchParams) => void = () => {};

  private constructor() {
    this.#server = createServer((req, res) => this.#answer(req, res));
  }

  static async start(): Promise<FakeStripe> {
    const fake = new FakeStripe();
    await new Promise<void>((resolve) => fake.#server.listen(0, "127.0.0.1", resolve));
    return fake;
  }

  get base(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** An event that happened so many seconds ago. */
  add(type: string, secondsAgo: number, over: Partial<Listed> = {}): Listed {
    const made: Listed = event(type, { created: nowSeconds() - secondsAgo, pending_webhooks: 0, ...over });
    this.events.push(made);
    this.events.sort((a, b) => b.created - a.created);
    return made;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(req: IncomingMessage, res: ServerResponse): void {
    const { pathname, searchParams } = new URL(req.url ?? "/", this.base);
    const fault = this.faults.shift();
    if (fault === "hang") return;
    if (fault === "cut") return void req.socket.destroy();
    if (fault !== undefined) return refuse(res, fault, fault === 429 ? "rate_limit" : undefined);
    if (req.headers.authorization !== `Bearer ${API_KEY}`) return refuse(res, 401);
    if (pathname === "/v1/webhook_endpoints")
      return send(
        res,
        list(
          this.endpoints.map((one) => JSON.stringify(one)),
          false,
        ),
      );
    if (pathname !== "/v1/events") return refuse(res, 404);
    this.asked.push(searchParams);
    this.onPage(searchParams);
    this.#events(searchParams, res);
  }

  #events(query: URLSearchParams, res: ServerResponse): void {
    const number = (name: string, otherwise: number): number => Number(query.get(name) ?? otherwise);
    const limit = number("limit", 10);
    if (limit > 100 || limit < 1) return refuse(res, 400, "parameter_invalid_integer", "limit");
    const types = [...query].filter(([name]) => name.startsWith("types")).map(([, value]) => value);
    if (types.length > 20) return refuse(res, 400, "parameter_invalid", "types");
    const kept = this.events.filter(({ created }) => created > nowSeconds() - keepsSeconds);
    const after = query.get("starting_after");
    const position = after === null ? -1 : kept.findIndex(({ id }) => id === after);
    if (after !== null && position < 0) return refuse(res, 400, "resource_missing", "starting_after");
    const found = kept
      .slice(position + 1)
      .filter(
        ({ created }) => created >= number("created[gte]", 0) && created <= number("created[lte]", Infinity),
      )
      .filter(({ type }) => types.length === 0 || types.includes(type))
      .filter(({ undelivered }) => query.get("delivery_success") !== "false" || undelivered);
    send(res, list(found.slice(0, limit).map(textOf), found.length > limit));
  }
}

/** As Stripe writes it, with a number that no double holds. */
export function textOf(listed: Listed): string {
  const one = { ...listed, undelivered: undefined };
  return JSON.stringify(one, null, 2).replace(/\}$/, ',\n  "beyond": 12345678901234567890\n}');
}

export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

function list(texts: readonly string[], more: boolean): string {
  return `{\n  "object": "list",\n  "data": [\n${texts.join(",\n")}\n  ],\n  "has_more": ${more},\n  "url": "/v1"\n}`;
}

function send(res: ServerResponse, body: string): void {
  res.writeHead(200, { "content-type": "application/json" }).end(body);
}

function refuse(res: ServerResponse, status: number, code?: string, param?: string): void {
  const error = {
    type: "invalid_request_error",
    message: "Invalid API Key provided: sk_live_****",
    code,
    param,
  };
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ error }));
}
