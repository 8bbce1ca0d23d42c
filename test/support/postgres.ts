/**
 * What test files use: a database of their own on a shared server, or a whole server of their own where
 * a test stops, kills or sets one up. Where Postgres cannot be had the tests are skipped, with the reason.
 *
 * @example
 * describeWith("newest", "claiming", (database) => {
 *   it("gives a task to one worker", async () => {
 *     const pool = new pg.Pool({ connectionString: database().url });
 *     …
 *   });
 * });
 */
import { afterAll, beforeAll, beforeEach, describe, inject, type TestContext } from "vitest";
import { Unavailable } from "./postgres-binaries.ts";
import { createDatabase, dropDatabase } from "./postgres-server.ts";

export { servers, Unavailable } from "./postgres-binaries.ts";
export { type PostgresServer, startPostgres } from "./postgres-server.ts";

export type Which = "newest" | "oldest";

export interface FreshDatabase {
  readonly url: string;
  /** Drops it, and ends whoever is still connected. */
  drop(): Promise<void>;
}

/** An empty database on a shared server. Rejects with Unavailable where there is no such server. */
export async function freshDatabase(which: Which = "newest"): Promise<FreshDatabase> {
  const admin = await sharedServer(which);
  const url = await createDatabase(admin);
  return { url, drop: () => dropDatabase(admin, url) };
}

/** Skips the test that asks, with the reason, where its needs cannot be met: `beforeEach(needs.postgres)`. */
export const needs = {
  postgres: (context: TestContext) => skipUnless(context, () => sharedServer("newest")),
  oldestPostgres: (context: TestContext) => skipUnless(context, () => sharedServer("oldest")),
};

/** Runs the test's need; where it is Unavailable, skips the test with the reason. */
export async function skipUnless(context: TestContext, need: () => unknown): Promise<void> {
  try {
    await need();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    context.skip(error.message);
  }
}

/**
 * `describe`, with one fresh database for its tests. The database is there from the first `beforeAll`
 * on; where there is none, every test in it is skipped with the reason.
 */
export function describeWith(
  which: Which,
  name: string,
  body: (database: () => FreshDatabase) => void,
): void {
  describe(name, () => {
    let database: FreshDatabase | undefined;
    let missing: Unavailable | undefined;
    beforeAll(async () => {
      try {
        database = await freshDatabase(which);
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
        missing = error;
      }
    });
    beforeEach((context) => {
      if (missing) context.skip(missing.message);
    });
    afterAll(() => database?.drop());
    body(() => {
      if (!database)
        throw missing ?? new Error("the database is there from beforeAll on, not while tests are collected");
      return database;
    });
  });
}

async function sharedServer(which: Which): Promise<string> {
  const response = await fetch(`${inject("sharedPostgres")}/${which}`);
  const text = await response.text();
  if (response.ok) return text;
  throw response.status === 501 ? new Unavailable(text) : new Error(text);
}
