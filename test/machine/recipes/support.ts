/** What the tests of the recipes share: a database for each test, and recipes in processes that die. */
import { fork } from "node:child_process";
import { afterEach, beforeEach } from "vitest";
import { pgDatabase } from "../../../src/database/pg.ts";
import { type FreshDatabase, freshDatabase, needs } from "../../support/postgres.ts";
import { program } from "../../support/program.ts";
import { Bench } from "../support.ts";
import type { Order } from "./child.ts";

const file = await program(new URL("child.ts", import.meta.url));

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
    const child = fork(file, [JSON.stringify(order)], { execArgv: [] });
    child.once("error", reject);
    child.once("exit", (_code, signal) => resolve(signal));
  });
}
