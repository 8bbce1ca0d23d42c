/** The short form of `npm run faults` (docs/faults.md): each fault once, with a few events. */
import { afterAll, describe, expect, it } from "vitest";
import { Unavailable } from "../support/postgres-binaries.ts";
import { type PostgresServer, startPostgres } from "../support/postgres-server.ts";
import { sizes } from "./fault.ts";
import { faults } from "./faults/index.ts";
import { Random } from "./random.ts";
import { lineOf } from "./report.ts";
import { NotPermitted } from "./tmpfs.ts";
import { type Outcome, tryFault } from "./try.ts";

describe("with real processes, what was acknowledged takes effect once", () => {
  let postgres: PostgresServer | undefined;
  afterAll(() => postgres?.stop());

  it.for(faults.map((fault) => [`${fault.name}: ${fault.what}`, fault] as const))(
    "%s",
    { timeout: 600_000 },
    async ([, fault], { skip }) => {
      const seed = Date.now() % 1_000_000;
      let outcome: Outcome;
      try {
        postgres ??= await startPostgres({ version: "oldest" });
        outcome = await tryFault(fault, { size: sizes.short, random: new Random(seed), postgres, times: 1 });
      } catch (error) {
        // Nothing that one could install would help: not a reason to refuse a machine.
        if (error instanceof NotPermitted) return console.log(`${fault.name} was not run: ${error.message}`);
        if (error instanceof Unavailable) return skip(error.message);
        throw error;
      }
      console.log(`seed ${seed}  ${lineOf(outcome)}`);
      expect(outcome).toMatchObject({ lost: [], doubled: [], refused: [] });
    },
  );
});
