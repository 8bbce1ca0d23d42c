/** Looks at the database directly, past everything that is broken on purpose, and counts effects. */
import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";

export interface Verdict {
  /** Acknowledged, and without its effect. */
  readonly lost: readonly string[];
  /** More than one effect. */
  readonly doubled: readonly string[];
}

/** The effects that every event has: its own, and that of the job which its handler enqueued. */
const effects = ["event", "job"];

/** How often to look. */
const lookEveryMs = 50;

export class Witness {
  /** Where the database is now. */
  readonly #url: () => string;
  #client: pg.Client | undefined;

  constructor(url: () => string) {
    this.#url = url;
  }

  /** No unique constraint: what would happen twice must be seen twice. */
  async prepare(): Promise<void> {
    await this.#query("create table effect (what text, id text)");
  }

  /** Resolves when everything is finished that was recorded until now; tells how many are left. */
  async settled(limitMs: number, onLeft?: (left: number) => void): Promise<void> {
    let before: unknown;
    await this.#finished(limitMs, onLeft, async () => {
      before ??= (await this.#query("select clock_timestamp()::text as at"))[0]?.["at"];
      return before;
    });
  }

  /** Resolves when everything is finished, also what came of it. */
  async drained(limitMs: number): Promise<void> {
    await this.#finished(limitMs, undefined, async () => "infinity");
  }

  async #finished(
    limitMs: number,
    onLeft: ((left: number) => void) | undefined,
    before: () => Promise<unknown>,
  ): Promise<void> {
    const until = performance.now() + limitMs;
    for (;;) {
      let left: number | undefined;
      try {
        const [row] = await this.#query(
          "select count(*)::int as n from onceward.task where due_at is not null and created_at <= $1::timestamptz",
          [await before()],
        );
        left = row?.["n"] as number;
      } catch {
        // It is away: that is what we are here for.
      }
      if (left === 0) return;
      if (left !== undefined) onLeft?.(left);
      if (performance.now() > until) {
        const rest = left === undefined ? "and the database is away" : `${left} tasks are unfinished`;
        throw new Error(`not recovered after ${limitMs} ms: ${rest}`);
      }
      await wait(lookEveryMs);
    }
  }

  async judge(acknowledged: ReadonlySet<string>): Promise<Verdict> {
    const rows = await this.#query(
      "select what || ' ' || id as name, count(*)::int as n from effect group by 1",
    );
    const seen = new Map(rows.map(({ name, n }) => [name as string, n as number]));
    const wanted = [...acknowledged].flatMap((id) => effects.map((what) => `${what} ${id}`));
    return {
      lost: wanted.filter((name) => !seen.has(name)),
      doubled: [...seen].filter(([, n]) => n > 1).map(([name]) => name),
    };
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  async #query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    try {
      if (!this.#client) {
        const client = new pg.Client({ connectionString: this.#url(), connectionTimeoutMillis: 5_000 });
        client.on("error", () => {});
        await client.connect();
        this.#client = client;
      }
      return (await this.#client.query<Record<string, unknown>>(text, values)).rows;
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}
