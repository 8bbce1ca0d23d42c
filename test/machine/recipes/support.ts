/** What the tests of the recipes share: a database for each test, and a mail provider that outlives processes. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach } from "vitest";
import type { Database } from "../../../src/database/database.ts";
import { pgDatabase } from "../../../src/database/pg.ts";
import { type FreshDatabase, freshDatabase, needs } from "../../support/postgres.ts";
import { Bench } from "../support.ts";
import type { Order } from "./child.ts";

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

export interface Scene {
  readonly bench: Bench;
  readonly url: string;
}

/** A database and an engine of its own for each test of the file. */
export function scenes(): () => Scene {
  let fresh: FreshDatabase | undefined;
  let bench: Bench | undefined;
  beforeEach(needs.postgres);
  beforeEach(async () => {
    fresh = await freshDatabase();
    bench = new Bench(pgDatabase(fresh.url));
  });
  afterEach(async () => {
    await bench?.stop();
    await fresh?.drop();
  });
  return () => {
    if (!fresh || !bench) throw new Error("there is a scene within tests alone");
    return { bench, url: fresh.url };
  };
}

/** Runs a recipe in a process of its own until that is dead. */
export function untilKilled(order: Order): Promise<NodeJS.Signals | null> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(new URL("child.ts", import.meta.url)), [JSON.stringify(order)], {
      execArgv: ["--import", "jiti/register"],
    });
    child.once("error", reject);
    child.once("exit", (_code, signal) => resolve(signal));
  });
}
