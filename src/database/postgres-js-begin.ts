/**
 * postgres.js 3.4 and a connection that is cut inside a transaction: it goes on writing to the socket that is
 * gone, its own ROLLBACK included, which throws where nobody can catch it and ends the process; and where the
 * connection was opened anew meanwhile, the rest of the transaction runs outside of any. So: once a transaction
 * is over, no statement of it is sent any more; and if its connection was lost, postgres.js is not told how the
 * work ended.
 */
import { OncewardError } from "../errors.ts";
import { asDatabaseError } from "./failure.ts";

// What is touched of postgres.js: functions with properties.
type Tx = ((...args: unknown[]) => unknown) & Record<string, unknown>;
type Work = (tx: Tx) => unknown;
type Enter = (...args: unknown[]) => Promise<unknown>;

/** A query of postgres.js, before it is sent. */
interface Query {
  handler(query: Query): void;
  reject(error: unknown): void;
}

/** A transaction, over once its connection is lost or COMMIT or ROLLBACK was answered. */
interface Life {
  over?: { readonly error: unknown };
  readonly waiting: Set<(error: unknown) => void>;
}

const guarded = new WeakSet<object>();

/** Replaces `sql.begin`, so that the application's own transactions and those of its ORM are safe too. */
export function guardBegin(sql: object): void {
  if (guarded.has(sql)) return;
  guarded.add(sql);
  const target = sql as { begin: Enter };
  const { begin } = target;
  target.begin = async (...args) => {
    const life: Life = { waiting: new Set() };
    try {
      return await enter(life, begin, args);
    } finally {
      end(
        life,
        new OncewardError("transaction_aborted", "This transaction is over: its statement came too late."),
      );
    }
  };
}

/** `begin` or `savepoint`, whose last argument is the work. Rejects as soon as the connection is lost. */
function enter(life: Life, into: Enter, args: unknown[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (life.over) return reject(life.over.error);
    life.waiting.add(reject);
    const work = args.at(-1) as Work;
    const entered = into(
      ...args.slice(0, -1),
      (tx: Tx) =>
        new Promise((keep, undo) => {
          const result = work(watched(tx, life));
          Promise.resolve(Array.isArray(result) ? Promise.all(result) : result).then(
            (value) => life.over ?? keep(value),
            (error: unknown) => life.over ?? undo(error),
          );
        }),
    );
    entered.then(resolve, reject).finally(() => life.waiting.delete(reject));
  });
}

function end(life: Life, error: unknown): void {
  life.over ??= { error };
  for (const reject of life.waiting) reject(error);
}

/** The same transaction, with an eye on each of its queries. */
function watched(tx: Tx, life: Life): Tx {
  const watch = (made: unknown): unknown => {
    if (!isQuery(made)) return made;
    const { handler, reject } = made;
    // Called in the same moment in which the socket closes, before the work hears of it.
    made.reject = (error) => {
      const meaning = asDatabaseError(error);
      if (meaning instanceof OncewardError && meaning.code === "database_unavailable") end(life, error);
      reject(error);
    };
    made.handler = Object.assign(
      (query: Query) => (life.over ? query.reject(life.over.error) : handler(query)),
      handler,
    );
    return made;
  };
  return new Proxy(tx, {
    apply: (target, self, args) => watch(Reflect.apply(target, self, args)),
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (name === "savepoint") return (...args: unknown[]) => enter(life, value as Enter, args);
      if (name === "unsafe" || name === "file") return (...args: unknown[]) => watch((value as Tx)(...args));
      return value;
    },
  });
}

function isQuery(made: unknown): made is Query {
  if (!(made instanceof Promise)) return false;
  const { handler, reject } = made as Partial<Query> & Promise<unknown>;
  return typeof handler === "function" && typeof reject === "function";
}
