/**
 * What the verbs do, whatever library carries them: every driver, ORM and pooler runs this one suite. Tests use
 * lanes of their own in one ledger, so that nothing is cleaned up between them.
 */
import { afterAll, beforeAll, beforeEach, describe } from "vitest";
import type { Database } from "../../src/database/database.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { Verbs } from "../../src/ledger/verbs.ts";
import type { Clock } from "../support/clock.ts";
import { Unavailable } from "../support/postgres.ts";
import { bytesSuite } from "./conformance/bytes.ts";
import { claimSuite } from "./conformance/claim.ts";
import { finishSuite } from "./conformance/finish.ts";
import { recordSuite } from "./conformance/record.ts";
import { recoverSuite } from "./conformance/recover.ts";
import { stepSuite } from "./conformance/step.ts";
import { transactionSuite } from "./conformance/transaction.ts";
import { type Bench, openBench } from "./support.ts";

/** A database to test, and how its own kind of transaction runs a statement. */
export interface Opened<Tx> {
  readonly database: Database<Tx>;
  run(tx: Tx, statement: string): PromiseLike<unknown>;
  end(): Promise<void>;
}

export interface Suite {
  readonly bench: Bench;
  readonly ledger: Ledger;
  readonly verbs: Verbs;
  readonly clock: Clock;
}

export function ledgerSuite<Tx>(name: string, open: () => Promise<Opened<Tx>>): void {
  describe(`the ledger through ${name}`, () => {
    let opened: Opened<Tx> | undefined;
    let bench: Bench;
    let missing: Unavailable | undefined;
    beforeAll(async () => {
      try {
        opened = await open();
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
        missing = error;
        return;
      }
      bench = await openBench(opened.database);
    });
    afterAll(() => opened?.end());
    const suite = (): Suite => ({
      bench,
      ledger: bench.ledger,
      verbs: bench.ledger.verbs,
      clock: bench.clock,
    });

    beforeEach((context) => {
      if (missing) context.skip(missing.message);
    });
    describe("record", () => recordSuite(suite));
    describe("bytes", () => bytesSuite(suite));
    describe("claim", () => claimSuite(suite));
    describe("complete, fail, defer, cancel", () => finishSuite(suite));
    describe("steps, signals, effect keys, machines", () => stepSuite(suite));
    describe("replay, prune, look", () => recoverSuite(suite));
    describe("a transaction", () => transactionSuite(suite, () => opened as Opened<Tx>));
  });
}
