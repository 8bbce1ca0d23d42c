/** What the tests of receiving and handling share: genuine deliveries, and an application with a table of effects. */
import { createHmac, randomBytes } from "node:crypto";
import { afterEach } from "vitest";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import { connectSource, type ConnectedSource, type SourceOptions } from "../../src/handler/source.ts";
import type { Answer, Delivery } from "../../src/receive/delivery.ts";
import { stripe, type StripeEvents } from "../../src/source/stripe.ts";
import { Engine, type EngineOptions } from "../../src/worker/engine.ts";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import type { Ran } from "../../src/worker/lane.ts";

export const SECRET = "whsec_for_the_tests_alone";

export interface StripeEvent {
  id: string;
  object: "event";
  type: string;
  created: number;
  livemode: boolean;
  account?: string;
  pending_webhooks?: number;
  data: { object: { id?: string; [field: string]: unknown } };
}

/** An event with an id of its own, and an object of its own, unless told. */
export function event(type: string, over: Partial<StripeEvent> = {}): StripeEvent {
  return {
    id: `evt_${randomBytes(8).toString("hex")}`,
    object: "event",
    type,
    created: 1_750_000_000,
    livemode: true,
    data: { object: { id: `obj_${randomBytes(8).toString("hex")}` } },
    ...over,
  };
}

export function signature(
  body: string | Uint8Array,
  secret = SECRET,
  seconds = Math.floor(Date.now() / 1000),
): string {
  const hmac = createHmac("sha256", secret).update(`${seconds}.`).update(body).digest("hex");
  return `t=${seconds},v1=${hmac}`;
}

export function deliveryOf(
  body: string | Uint8Array,
  headers: Record<string, string> = {},
  method = "POST",
): Delivery {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const all: Record<string, string> = { "stripe-signature": signature(bytes), ...headers };
  return { method, body: bytes, header: (name) => (Object.hasOwn(all, name) ? all[name] : undefined) };
}

export interface App {
  readonly engine: Engine<PgClient>;
  readonly billing: ConnectedSource<StripeEvents, PgClient>;
  /** Delivers an event, signed, and returns the answer as the sender reads it. */
  deliver(sent: StripeEvent): Promise<{ status: number; outcome: string; headers: Answer["headers"] }>;
  /** The effects of an event, in the order they were written. */
  effectsOf(id: string): Promise<string[]>;
  /** The state of a task, or undefined. */
  stateOf(scope: string, key: string): Promise<string | undefined>;
  look(scope: string, key: string): Promise<Record<string, unknown> | null>;
  /** Resolves when no task of this key is waiting or running any more: the event's, and those of its handlers. */
  settled(key: string): Promise<void>;
  close(): Promise<void>;
}

export interface AppOptions extends EngineOptions {
  readonly source?: SourceOptions<StripeEvents>;
  readonly secrets?: string[];
  /** Of the pool. */
  readonly connections?: number;
}

/** An application over a database: its effects go to the table `effect`, which allows doubles on purpose. */
export async function openApp(url: string, options: AppOptions = {}): Promise<App> {
  const { connections } = options;
  const database = pgDatabase(url, connections === undefined ? {} : { max: connections });
  await database.query(
    "create table if not exists effect (n bigint generated always as identity, event text, what text)",
  );
  let onRan: (() => void)[] = [];
  const engine = new Engine(database, {
    pollMs: 50,
    ...options,
    onRan: (task: ClaimedTask, ran: Ran, ms: number) => {
      options.onRan?.(task, ran, ms);
      for (const told of onRan.splice(0)) told();
    },
  });
  const billing = connectSource(engine, stripe({ secrets: options.secrets ?? SECRET }), options.source);
  const app: App = {
    engine,
    billing,
    async deliver(sent) {
      return read(await billing.receive(deliveryOf(JSON.stringify(sent))));
    },
    async effectsOf(id) {
      const { rows } = await database.query("select what from effect where event = $1 order by n", [id]);
      return rows.map((row) => row["what"] as string);
    },
    async look(scope, key) {
      return engine.ledger.verbs.look({ scope, key });
    },
    async stateOf(scope, key) {
      return (await app.look(scope, key))?.["state"] as string | undefined;
    },
    async settled(key) {
      for (;;) {
        // Whatever ends from here on is noticed; what ended before is in the count.
        const ended = new Promise<void>((resolve) => {
          onRan.push(resolve);
          setTimeout(resolve, 100).unref();
        });
        const { rows } = await database.query(
          "select to_jsonb(count(*)) as n from onceward.task where key = $1 and due_at is not null",
          [key],
        );
        if (rows[0]?.["n"] === 0) return;
        await ended;
      }
    },
    async close() {
      await engine.stop();
      await database.close();
    },
  };
  return app;
}

/** Opens applications over the database of a file of tests, each of which ends with its test. */
export function openApps(database: () => { readonly url: string }): (options?: AppOptions) => Promise<App> {
  let apps: App[] = [];
  afterEach(async () => {
    await Promise.all(apps.map((app) => app.close()));
    apps = [];
  });
  return async (options) => {
    const app = await openApp(database().url, options);
    apps.push(app);
    return app;
  };
}

export function read({ status, headers, body }: Answer): {
  status: number;
  outcome: string;
  headers: Answer["headers"];
} {
  const said = JSON.parse(body) as { outcome?: string; error?: { code: string } };
  return { status, outcome: said.outcome ?? said.error?.code ?? "", headers };
}

/** Writes the effect of an event, through the handler's own transaction. */
export async function effect(tx: PgClient, id: string, what = "done"): Promise<void> {
  await tx.query("insert into effect (event, what) values ($1, $2)", [id, what]);
}
