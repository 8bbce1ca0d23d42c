/** One transaction on a connection of `pg`: how it begins, and that only we end it. */
import { OncewardError } from "../errors.ts";
import type { PgClient } from "./pg.ts";
import type { PgSession } from "./pg-session.ts";
import { submit } from "./pg-statement.ts";
import { transactionEnded } from "./while-open.ts";

/** Of `pg`, what a statement that brings its BEGIN along is made of. Known by its shape, and not used where it differs. */
interface Connection {
  parse(statement: { text: string }): void;
  bind(portal: object): void;
  execute(portal: object): void;
}
interface Query {
  prepare(connection: Connection): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
}
type QueryClass = new (config: object) => Query;

interface TransactionClient extends PgClient {
  release(destroy?: boolean): void;
  /** Since pg 8.17: `I` outside of a transaction. */
  getTransactionStatus?(): string | null;
}

/** A connection that has answered within so long is alive, as far as anybody can know; in ms. */
const FRESH_MS = 10_000;

/** What would begin or end a transaction; ROLLBACK TO a savepoint does not. */
const ENDS =
  /^\s*(?:begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b/i;

/**
 * Begins with its first statement, in one message where that has parameters: a round trip is a quarter of what a
 * handler with one row costs. A connection that was idle is asked first, within the time that statements of ours have:
 * those of the user have no limit, and on a dead connection would wait for ever.
 */
export class PgTransaction {
  /** The client as the user has it: his own, as long as the transaction is open. */
  readonly tx: PgClient;
  readonly #session: PgSession<TransactionClient>;
  readonly #begin: readonly string[];
  #begun: Promise<unknown> | undefined;
  /** Statements whose answers have not come, or will come to somebody else. */
  #underWay = 0;
  #ended = false;

  constructor(session: PgSession<TransactionClient>, begin: readonly string[]) {
    this.#session = session;
    this.#begin = begin;
    this.tx = Object.assign(Object.create(session.client) as PgClient, {
      query: (...args: unknown[]) => this.#query(args) as never,
    });
  }

  /** Something was sent in it. */
  get begun(): boolean {
    return this.#begun !== undefined;
  }

  /**
   * From here on the user's statements are refused: they would land in the transaction of whoever comes next. What he
   * did not await and what waits for the BEGIN is sent before.
   */
  async end(): Promise<void> {
    this.#ended = true;
    await this.#begun?.catch(() => {});
  }

  /** A statement of the user has ended it, in a form that was not refused, as far as answers tell. */
  get isGone(): boolean {
    return this.begun && this.#underWay === 0 && this.#session.client.getTransactionStatus?.() === "I";
  }

  #query(args: unknown[]): unknown {
    const config = args[0] as { text?: unknown; submit?: unknown } | string | null | undefined;
    const text = typeof config === "string" ? config : config?.text;
    if (this.#ended) return Promise.reject(transactionEnded());
    if (typeof text === "string" && ENDS.test(text)) return Promise.reject(endedByHand());
    this.#underWay++;
    // What answers by itself, as a cursor does, is wanted at once; `pg` keeps it behind the BEGIN.
    const answersItself =
      typeof args.at(-1) === "function" ||
      (typeof config === "object" && typeof config?.submit === "function");
    const { client } = this.#session;
    const send = (): unknown => Reflect.apply(client.query, client, args);
    if (answersItself) {
      void this.#beginApart();
      return send();
    }
    const answer =
      this.#begun === together
        ? (send() as Promise<unknown>)
        : (this.#sendWithBegin(args) ?? this.#beginApart().then(send));
    // One chain, so that an error's stack leads to who awaits it, and one that nobody awaits is not taken for handled.
    return answer.then(
      (result) => {
        this.#underWay--;
        return result;
      },
      (error: unknown) => {
        this.#underWay--;
        throw error;
      },
    );
  }

  #beginApart(): Promise<unknown> {
    if (!this.#begun) {
      const { client } = this.#session;
      this.#begun = this.#session.answer(() => client.query(this.#begin.join("; ")));
      this.#begun.then(
        () => (this.#begun = together),
        () => {}, // Whoever waits for it is told.
      );
    }
    return this.#begun;
  }

  /** Undefined where the two have to go apart. */
  #sendWithBegin(args: unknown[]): Promise<unknown> | undefined {
    const config = this.#begun ? undefined : simpleConfig(args);
    const Joined = config && this.#session.isFresh(FRESH_MS) && joinedClass(this.#session.client);
    if (!Joined) return undefined;
    this.#begun = together;
    return submit(this.#session.client, (callback) => new Joined({ ...config, callback }, this.#begin));
  }
}

/** It went out with the first statement, or was answered. */
const together = Promise.resolve();

/** A statement with parameters, and nothing that `pg` would keep or page through beyond it. */
function simpleConfig(args: unknown[]): object | undefined {
  const [first, second] = args;
  if (args.length > 2 || typeof second === "function") return undefined;
  const config = typeof first === "string" ? { text: first } : { ...(first as object) };
  const { text, name, rows, submit, callback, values = second } = config as Record<string, unknown>;
  const isPlain = typeof text === "string" && !(name ?? rows ?? submit ?? callback);
  return isPlain && Array.isArray(values) && values.length > 0 ? { ...config, values } : undefined;
}

type JoinedClass = new (config: object, begin: readonly string[]) => Query;

const joinedClasses = new WeakMap<QueryClass, JoinedClass>();

/** The statement class of this client's `pg`, taught to send others ahead. `pg-cursor` is built upon the same methods. */
function joinedClass(client: object): JoinedClass | undefined {
  const { Query } = client.constructor as { Query?: QueryClass };
  const { connection } = client as { connection?: Partial<Connection> };
  const methods = [Query?.prototype.prepare, Query?.prototype.handleCommandComplete, connection?.parse];
  methods.push(connection?.bind, connection?.execute);
  if (!Query || !methods.every((method) => typeof method === "function")) return undefined;
  let known = joinedClasses.get(Query);
  if (!known) joinedClasses.set(Query, (known = joined(Query)));
  return known;
}

function joined(Base: QueryClass): JoinedClass {
  return class extends Base {
    readonly #begin: readonly string[];
    #ahead: number;

    constructor(config: object, begin: readonly string[]) {
      super(config);
      this.#begin = begin;
      this.#ahead = begin.length;
    }

    override prepare(connection: Connection): void {
      for (const text of this.#begin) {
        connection.parse({ text });
        connection.bind({});
        connection.execute({});
      }
      super.prepare(connection);
    }

    override handleCommandComplete(message: unknown, connection: Connection): void {
      if (this.#ahead > 0) this.#ahead--;
      else super.handleCommandComplete(message, connection);
    }
  };
}

export function endedByHand(): OncewardError {
  return new OncewardError(
    "transaction_ended",
    "This transaction begins and ends with the function that got it: its rows and its completion are one commit. " +
      "Do not send BEGIN, COMMIT or ROLLBACK through `tx`; to undo a part, use a savepoint, and to undo all, throw.",
  );
}
