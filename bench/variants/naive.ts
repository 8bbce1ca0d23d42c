/** What people write by hand, at its best: text instead of jsonb, prepared statements, a pool that fits. */
import pg from "pg";
import { insertOrder, orderTable, withClient } from "../database.ts";
import type { StripeEvent } from "../event.ts";
import type { Running, Setup, Variant } from "../variant.ts";

/** More connections than cores help: commits of several share one flush of the log. */
const POOL = 32;

const table = `create table if not exists webhook_event (
  id text primary key, type text not null, body text not null, state text not null default 'received',
  received_at timestamptz not null default now(), done_at timestamptz);
  create index if not exists webhook_event_open on webhook_event (received_at) where state <> 'done'`;

const statements = {
  select: "select state from webhook_event where id = $1",
  insert: "insert into webhook_event (id, type, body, state) values ($1, $2, $3, $4)",
  insertOnce:
    "insert into webhook_event (id, type, body, state) values ($1, $2, $3, $4) on conflict do nothing",
  done: "update webhook_event set state = 'done', done_at = now() where id = $1",
  order: insertOrder,
};

type Statement = keyof typeof statements;
type Run = (
  client: pg.Pool | pg.PoolClient,
  statement: Statement,
  ...values: string[]
) => Promise<pg.QueryResult>;
const run: Run = (client, name, ...values) => client.query({ name, text: statements[name], values });

type Pattern = (pool: pg.Pool, setup: Setup, event: StripeEvent, body: string) => Promise<unknown>;

async function handle(client: pg.Pool | pg.PoolClient, setup: Setup, event: StripeEvent): Promise<void> {
  setup.started(event.id);
  await setup.work?.(event.id);
  if (setup.mode === "handle") await run(client, "order", event.id, event.type);
}

/** Runs it and notes that it is done; two workers that get this far run it twice, and a crash in between too. */
async function handleAndNote(pool: pg.Pool, setup: Setup, event: StripeEvent): Promise<void> {
  if (setup.mode === "receive") return;
  await handle(pool, setup, event);
  await run(pool, "done", event.id);
  setup.finished(event.id);
}

const selectFirst: Pattern = async (pool, setup, event, body) => {
  const known = await run(pool, "select", event.id);
  if (known.rows.length > 0) return;
  await run(pool, "insert", event.id, event.type, body, "received");
  await handleAndNote(pool, setup, event);
};

const insertAndCatch: Pattern = async (pool, setup, event, body) => {
  try {
    await run(pool, "insert", event.id, event.type, body, "received");
  } catch (error) {
    if ((error as { code?: string }).code === "23505") return;
    throw error;
  }
  await handleAndNote(pool, setup, event);
};

const inTransaction: Pattern = async (pool, setup, event, body) => {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const state = setup.mode === "receive" ? "received" : "done";
    const { rowCount } = await run(client, "insertOnce", event.id, event.type, body, state);
    if (rowCount === 1 && setup.mode !== "receive") await handle(client, setup, event);
    await client.query("commit");
    if (rowCount === 1) setup.finished(event.id);
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
};

function naive(title: string, pattern: Pattern, notes: string): Variant {
  return {
    title,
    kind: "naive",
    store: "postgres",
    modes: ["receive", "jobs", "handle"],
    notes,
    prepare: ({ database }) =>
      withClient(database, async (client) => {
        await client.query(orderTable);
        await client.query(table);
      }),
    async open(setup): Promise<Running> {
      const pool = new pg.Pool({ connectionString: setup.database, max: POOL });
      return {
        enqueue: (event, bytes) => pattern(pool, setup, event, bytes.toString()),
        async unfinished() {
          const { rows } = await pool.query("select count(*) from webhook_event where state <> 'done'");
          return Number(rows[0].count);
        },
        close: () => pool.end(),
      };
    },
  };
}

export const naiveSelect = naive(
  "by hand: select, insert, update",
  selectFirst,
  "Two deliveries at once run twice; a crash after the insert loses the event.",
);
export const naiveCatch = naive(
  "by hand: insert, catch 23505, update",
  insertAndCatch,
  "A crash after the insert loses the event: the sender's retry is taken for a duplicate.",
);
export const naiveTransaction = naive(
  "by hand: all in one transaction",
  inTransaction,
  "Right for rows of the same database, with the sender waiting for the handler; a second delivery waits on the key.",
);
