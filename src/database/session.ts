/**
 * One session for everybody (PGlite): while a transaction is open, every other statement waits until it ends.
 * A statement from inside that transaction that does not go through it therefore waits for itself, for ever.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { OncewardError } from "../errors.ts";

/** The methods that wait for an open transaction. */
export interface Session<Tx> {
  query: (...args: never[]) => Promise<unknown>;
  exec: (script: string, ...options: never[]) => Promise<unknown>;
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** A transaction of one session; of another one around it, where its work runs within that. */
interface Transaction {
  readonly session: object;
  readonly around: Transaction | undefined;
  /** What a handler started and did not await may still run when its transaction is over: that is no nesting. */
  open: boolean;
}

const inside = new AsyncLocalStorage<Transaction>();

/** Whether the caller is part of an open transaction: of this session, or of any that serves everybody. */
export function isInsideTransaction(session?: object): boolean {
  for (let at = inside.getStore(); at; at = at.around)
    if (at.open && (session === undefined || at.session === session)) return true;
  return false;
}

const guarded = new WeakSet<object>();

/** Makes such statements throw `database_nested`, whoever sends them: us, the application or its ORM. */
export function guardSession<Tx>(session: Session<Tx>): void {
  if (guarded.has(session)) return;
  guarded.add(session);
  const refuseInside = (): void => {
    if (isInsideTransaction(session)) throw nested();
  };
  const { query, exec, transaction } = session;
  session.query = async (...args) => {
    refuseInside();
    return query.apply(session, args);
  };
  session.exec = async (...args) => {
    refuseInside();
    return exec.apply(session, args);
  };
  session.transaction = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    refuseInside();
    const here: Transaction = { session, around: inside.getStore(), open: true };
    try {
      return await (transaction<T>).call(session, (tx) => inside.run(here, () => work(tx)));
    } finally {
      here.open = false;
    }
  };
}

function nested(): OncewardError {
  return new OncewardError(
    "database_nested",
    "This statement does not go through the transaction that is open around it. The embedded Postgres has one " +
      "session, so it would wait for ever. Inside a handler use `tx`, and after it the database.",
  );
}
