/**
 * The shape of a database, and all that the ledger asks of one. Parameters are text, boolean or
 * null and are cast in SQL, one statement a call, results are jsonb (parsed by the adapter) or text: so the same calls fit
 * every driver and ORM. We describe shapes and import no driver's types.
 */
export type Param = string | boolean | null | Uint8Array | Texts;

/** A text[]; bytes among them are valid UTF-8 without NUL. */
export type Texts = readonly (string | Uint8Array | null)[];

/** Anything that runs one statement: a pool, a client, an open transaction of any library. */
export interface Queryable {
  query(text: string, params?: readonly Param[]): Promise<{ rows: Record<string, unknown>[] }>;
  /**
   * True where a text[] parameter is taken as it is. Left out: it is sent as a Postgres array literal, which every driver
   * can send, but which has to be escaped and read.
   */
  readonly takesTexts?: boolean;
  /**
   * True where jsonb goes through parsers that are not ours, and that applications replace: verbs then answer as text,
   * which is parsed where they are called.
   */
  readonly jsonAsText?: boolean;
  /**
   * Of an open transaction, where its driver can: sends this statement along with the commit, which saves a round trip.
   * It raises where nothing may be committed. One of them, after all others, and without parameters.
   */
  last?(statement: string): void;
}

/** What an adapter heeds where its library lets it: today that of `pg`. */
export interface TransactionOptions {
  /** Aborted, the connection is given up: a run that has ended must not hold it, nor its locks. */
  readonly signal?: AbortSignal | undefined;
  /** Statements may take as long as they take, as those of a migration. */
  readonly patient?: boolean | undefined;
}

export interface Database<Tx = unknown> extends Queryable {
  /** What it is, for messages: `pg`, `postgres.js`, `pglite`, `embedded`, `drizzle`, … */
  readonly name: string;
  /**
   * True where one session serves everybody (PGlite): then a query beside an open transaction
   * would wait for ever, and the adapter says so instead.
   */
  readonly single: boolean;
  /** True where the `signal` of a transaction is heeded. */
  readonly abortable?: boolean | undefined;
  /** How many connections it may use at once, where it can say so. */
  readonly connections?: number | undefined;
  /**
   * Runs `work` in one READ COMMITTED transaction and commits, or rolls back if it throws. `tx` is
   * the caller's own kind of transaction; `ledger` is the same transaction as a Queryable.
   * Rejects when COMMIT was answered by ROLLBACK (a swallowed error had aborted it).
   */
  transaction<T>(work: (tx: Tx, ledger: Queryable) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** Calls back on each NOTIFY of a channel where a direct connection can listen; undefined where it cannot. */
  listen?(channel: string, onNotify: (payload: string) => void): Promise<() => Promise<void>>;
  /** Ends what this adapter opened itself; a pool that the caller brought stays open. */
  close(): Promise<void>;
}
