/** `pg` (node-postgres): a connection URL, or a pool that the application has already. */
import { OncewardError } from "../errors.ts";
import { CONNECTION_TIMEOUT_MS } from "./bridge.ts";
import type { Database, Queryable } from "./database.ts";
import { loadPg } from "./driver.ts";
import { aborted, asDatabaseError, asDatabaseErrorOfWork, exhausted, sqlStateOf } from "./failure.ts";
import { keepAlive, pgListener } from "./pg-listener.ts";
import { PgSession, Suspicion } from "./pg-session.ts";
import { endedByHand, PgTransaction } from "./pg-transaction.ts";
import { asQueryable, ownQueryable, queryable } from "./queryable.ts";

/** A client of `pg`, as far as we use it. Inside a handler it is the transaction: `tx.query(text, values)`. */
export interface PgClient {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows its rows, as with `pg` itself
  query<R = Record<string, unknown>>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: R[]; rowCount: number | null; command: string }>;
}

interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
}

interface PooledClient extends PgClient, Emitter {
  release(destroy?: boolean): void;
}

/** A `pg.Pool`, as far as we use it. Its second way to connect is here so that the client's type is inferred. */
export interface PgPool<Client> extends Pick<Emitter, "on"> {
  connect(): Promise<Client>;
  connect(callback: (error: Error | undefined, client: Client | undefined, done: () => void) => void): void;
  end(): Promise<void>;
  readonly waitingCount: number;
  readonly options?: { readonly max?: number };
}

export interface PgOptions {
  /** Connections of a pool made from a URL. Default 10. */
  readonly max?: number;
  /** How long to wait for a connection before `pool_exhausted`, in ms. Default 5000. */
  readonly connectionTimeoutMs?: number;
  /**
   * How long to wait for the answer to a statement of ours before its connection is given up
   * (`database_unavailable`), in ms; 0: for ever, or until TCP gives up, which takes a quarter of an hour. What
   * you send through `tx` has no limit of its own: it ends with the attempt, which may have a deadline. Default 30000.
   */
  readonly answerTimeoutMs?: number;
  /**
   * After so long without a statement Postgres ends an open transaction of ours, with its locks: its process may
   * be cut off or stopped, and then only the server can. In ms; 0: as the server is set. Default 300000.
   */
  readonly idleTransactionTimeoutMs?: number;
  /**
   * URL of a direct connection for LISTEN; not one through a pooler in transaction mode, where LISTEN is
   * silent. Default: the URL of the database. With a pool of your own: none, and the ledger polls.
   */
  readonly listen?: string;
}

/**
 * Senders of webhooks have had their 503 long before. Long enough for every statement of the ledger on a busy
 * server, and half a lease: what hung is renewed, claimed and recorded on a new connection before others take over.
 */
const ANSWER_TIMEOUT_MS = 30_000;

/** Nobody waits that long inside a transaction on purpose; a debugger might. */
const IDLE_TRANSACTION_TIMEOUT_MS = 5 * 60_000;

/** A database through `pg`, from a connection URL or from your own `pg.Pool`, which stays yours to end. */
export function pgDatabase(url: string, options?: PgOptions): Database<PgClient>;
export function pgDatabase<Client>(pool: PgPool<Client>, options?: PgOptions): Database<Client>;
export function pgDatabase(
  source: string | PgPool<PgClient>,
  {
    max = 10,
    connectionTimeoutMs = CONNECTION_TIMEOUT_MS,
    answerTimeoutMs = ANSWER_TIMEOUT_MS,
    idleTransactionTimeoutMs = IDLE_TRANSACTION_TIMEOUT_MS,
    listen,
  }: PgOptions = {},
): Database<PgClient> {
  const own = typeof source === "string" ? source : undefined;
  const listener = pgListener(listen ?? own);
  let opened: Promise<PgPool<PgClient>> | undefined;
  const pool = (): Promise<PgPool<PgClient>> => {
    opened ??=
      own === undefined
        ? Promise.resolve(source as PgPool<PgClient>)
        : openPool(own, max, connectionTimeoutMs);
    return opened;
  };
  if (own === undefined) survive(source as PgPool<PgClient>);

  // A pool of ours has its own time limit. Another one may have none, and would let us wait for ever.
  const connect = (from: PgPool<PgClient>): Promise<PooledClient> =>
    own === undefined ? connectWithin(from, connectionTimeoutMs) : (from.connect() as Promise<PooledClient>);
  const begin = beginning(idleTransactionTimeoutMs);
  const suspicion = new Suspicion();
  const checkout = async (timeoutMs = answerTimeoutMs): Promise<PgSession<PooledClient>> => {
    try {
      for (;;) {
        const client = await connect(await pool());
        if (!suspicion.isSuspect(client)) return new PgSession(client, suspicion, timeoutMs);
        client.release(true);
      }
    } catch (error) {
      throw asDatabaseError(error);
    }
  };

  return {
    name: "pg",
    single: false,
    abortable: true,
    connections: own === undefined ? (source as PgPool<PgClient>).options?.max : max,
    takesTexts: true,
    async query(text, params) {
      const session = await checkout();
      let broken = false;
      try {
        return await session.answer(() => ownQueryable(session.client).query(text, params));
      } catch (error) {
        broken = error instanceof OncewardError;
        throw error;
      } finally {
        session.release(broken);
      }
    },
    async transaction(work, { signal, patient = false } = {}) {
      const session = await checkout(patient ? 0 : answerTimeoutMs);
      const { client } = session;
      const onAbort = (): void => session.giveUp(signal?.reason);
      // Until we know better: a session with a transaction still open must not go back into the pool.
      let broken = true;
      try {
        signal?.throwIfAborted();
        signal?.addEventListener("abort", onAbort);
        const transaction = new PgTransaction(session, begin);
        const within = asQueryable(transaction.tx);
        const ending = ["commit"];
        const ledger: Queryable = Object.assign(
          queryable((text, params) => session.answer(() => within.query(text, params)), within.takesTexts),
          { last: (statement: string) => void ending.unshift(statement) },
        );
        const rollBack = async (): Promise<void> => {
          await transaction.end();
          broken =
            transaction.begun &&
            (await session
              .answer(() => client.query("rollback"))
              .then(
                () => false,
                () => true,
              ));
        };
        const result = await work(transaction.tx, ledger).catch(async (error: unknown) => {
          await rollBack();
          if (sqlStateOf(error) === "25P02") throw aborted(error);
          // What the work threw is the caller's, unless it tells of the database, or the connection is gone too.
          throw broken ? asDatabaseError(error) : asDatabaseErrorOfWork(error);
        });
        await transaction.end();
        if (transaction.isGone) {
          broken = false;
          throw endedByHand();
        }
        if (!transaction.begun) ending.unshift(...begin);
        const answers = await session
          .answer(() => client.query(ending.join("; ")))
          .catch(async (error: unknown) => {
            // The last statement may have been refused, and then its transaction is still open.
            await rollBack();
            throw asDatabaseError(error);
          });
        broken = false;
        const { command } = [answers].flat().at(-1) as { command: string };
        if (command !== "COMMIT") throw aborted();
        return result;
      } finally {
        signal?.removeEventListener("abort", onAbort);
        session.release(broken);
      }
    },
    ...(listener && { listen: listener.listen }),
    async close() {
      await listener?.close();
      if (own !== undefined && opened) await (await opened).end();
    },
  };
}

/** Sent as one. `set local` is over with the transaction, also behind a pooler. */
function beginning(idleMs: number): readonly string[] {
  const begin = "begin isolation level read committed";
  return idleMs > 0
    ? [begin, `set local idle_in_transaction_session_timeout = ${Math.ceil(idleMs)}`]
    : [begin];
}

async function openPool(connectionString: string, max: number, timeoutMs: number): Promise<PgPool<PgClient>> {
  const { Pool } = await loadPg();
  const pool = new Pool({
    connectionString,
    max,
    connectionTimeoutMillis: timeoutMs,
    ...keepAlive,
    application_name: "onceward",
  });
  survive(pool);
  return pool;
}

/**
 * A connection that is cut emits `error`, and without a listener that ends the whole process, also between a
 * checkout and the next statement. Nothing is hidden by listening: every later use of that client rejects.
 */
function survive(pool: Pick<Emitter, "on">): void {
  if (surviving.has(pool)) return;
  surviving.add(pool);
  const known = new WeakSet<object>();
  pool.on("error", () => {});
  pool.on("acquire", (client: Emitter) => {
    if (known.has(client)) return;
    known.add(client);
    client.on("error", () => {});
  });
}

const surviving = new WeakSet<object>();

async function connectWithin(pool: PgPool<PgClient>, timeoutMs: number): Promise<PooledClient> {
  const connecting = pool.connect() as Promise<PooledClient>;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    // A little later than the pool's own, which knows better what happened.
    timer = setTimeout(resolve, timeoutMs + 250, undefined);
  });
  const client = await Promise.race([connecting, timeout]).finally(() => clearTimeout(timer));
  if (client) return client;
  connecting.then(
    (late) => late.release(),
    () => {},
  );
  throw exhausted();
}
