/** A mail provider that outlives processes. */
import type { Database } from "../../../src/database/database.ts";

/** Says how a call of the provider shall go; by default well. */
export type Plan = (text: string) => "take" | "refuse" | "take and fail" | "die" | "take and die";

/**
 * A provider of mails that honours keys: however often it is called with one, it sends one mail. It keeps its
 * books in a table, so that processes which die share it.
 */
export class Provider {
  readonly #database: Database;
  readonly #plan: Plan;

  constructor(database: Database, plan: Plan = () => "take") {
    this.#database = database;
    this.#plan = plan;
  }

  async open(): Promise<void> {
    await this.#database.query(
      `create table if not exists provider (n bigint generated always as identity, key text primary key,
         text text not null, calls integer not null default 1)`,
    );
  }

  async send(text: string, key: string): Promise<void> {
    const plan = this.#plan(text);
    if (plan === "die") return end();
    if (plan === "refuse") throw new Error("the provider is away");
    await this.#database.query(
      `insert into provider as p (key, text) values ($1, $2) on conflict (key) do update set calls = p.calls + 1`,
      [key, text],
    );
    if (plan === "take and die") return end();
    if (plan === "take and fail") throw new Error("the connection was cut");
  }

  /** Every mail that went out, in order. */
  async sent(): Promise<string[]> {
    const { rows } = await this.#database.query("select text from provider order by n");
    return rows.map((row) => String(row["text"]));
  }
}

/** Dies at once, and does not come back. */
function end(): Promise<never> {
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => {});
}
