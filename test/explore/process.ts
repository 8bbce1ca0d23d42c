/** A process of the application under exploration: it has connections, runs one schedule's code, and can die. */
import type { Owner } from "./virtual-time.ts";
import type { Statement } from "./live.ts";

/** What a process waits for the scheduler to let happen. */
export interface Op {
  /** Undefined: the world around the processes. */
  readonly process: Process | undefined;
  readonly who: string;
  readonly kind: "sql" | "outside" | "act";
  /** The statement, or in words what is done. */
  readonly what: Statement | string;
  readonly session?: Session;
  /** Not worth a choice: nothing depends on when it happens. */
  readonly silent: boolean;
  /** Of a call to the outside: has its effect, and says what the answer is. */
  effect?(): unknown;
  succeed(answer: unknown): void;
  fail(error: Error): void;
}

export class Process implements Owner {
  readonly name: string;
  /** Which start of it this is, from 1. */
  readonly start: number;
  readonly submit: (op: Op) => void;
  /** It has destroyed a connection of its own: what waits for an answer on it will have none. */
  readonly abandon: (session: Session) => void;
  alive = true;
  paused = false;
  /** An answer that came while it was stopped. */
  held: (() => void) | undefined;
  /** When it was stopped. */
  pausedAt = 0;
  readonly sessions: Session[] = [];

  constructor(name: string, start: number, { submit, abandon }: Pick<Process, "submit" | "abandon">) {
    this.name = name;
    this.start = start;
    this.submit = submit;
    this.abandon = abandon;
  }

  /** Shaped like a `pg.Pool`, so that the real adapter runs over it. */
  pool(): Pool {
    return {
      options: { max: 10 },
      waitingCount: 0,
      on: () => undefined,
      end: async () => undefined,
      connect: async () => {
        let session = this.sessions.find((one) => one.free);
        if (!session) this.sessions.push((session = new Session(this, this.sessions.length + 1)));
        session.free = false;
        return session;
      },
    };
  }
}

/** Shaped like a `pg.PoolClient`. */
export class Session {
  readonly name: string;
  readonly #process: Process;
  free = true;
  /** The connection is gone. */
  broken = false;
  /** The statement that began a transaction in which nothing was done yet. */
  begun: string | undefined;

  constructor(process: Process, number: number) {
    this.#process = process;
    this.name = `${process.name}${"'".repeat(process.start - 1)}.${number}`;
  }

  query(query: string | { text: string; values?: unknown[] }, values?: unknown[]): Promise<QueryResult> {
    const statement =
      typeof query === "string"
        ? { text: query, values: values ?? [] }
        : { text: query.text, values: query.values ?? [] };
    const last = /^(?:(begin.*); )?(?:(call .*); )(commit)$/is.exec(statement.text);
    return last ? this.#sendInTurn(last.slice(1)) : this.#send(statement);
  }

  /** A last word and the commit, in one message. Steps of their own all the same: to die in between is to die before all. */
  async #sendInTurn(texts: readonly (string | undefined)[]): Promise<QueryResult> {
    let answer: QueryResult | undefined;
    for (const text of texts) if (text !== undefined) answer = await this.#send({ text, values: [] });
    return answer!;
  }

  #send(statement: Statement): Promise<QueryResult> {
    return new Promise((resolve, reject) => {
      if (this.broken) reject(cutOff());
      else
        this.#process.submit({
          process: this.#process,
          who: this.#process.name,
          kind: "sql",
          what: statement,
          session: this,
          silent: silent.test(statement.text),
          succeed: resolve as (answer: unknown) => void,
          fail: reject,
        });
    });
  }

  release(destroy?: boolean): void {
    if (destroy) this.broken = true;
    this.free = !this.broken;
    if (destroy) this.#process.abandon(this);
  }

  on(): void {}
  removeListener(): void {}
  getTypeParser(): (text: string) => string {
    return (text) => text;
  }
}

/** As `pg` says it when the socket closes under a query. */
export function cutOff(): Error {
  return new Error("Connection terminated unexpectedly");
}

/**
 * A transaction that begins or is undone changes nothing that others see; and who says hello, looks for
 * migrations or wakes a listener that is not there writes nothing that anybody acts on.
 */
const silent = /^begin|^rollback|^select 1$|\.migration\b|\.(hello|goodbye|wake)\(/i;

interface QueryResult {
  readonly rows: Record<string, unknown>[];
  readonly rowCount: number | null;
  readonly command: string;
}

interface Pool {
  readonly options: { readonly max: number };
  readonly waitingCount: number;
  on(): void;
  end(): Promise<void>;
  connect(): Promise<Session>;
}
