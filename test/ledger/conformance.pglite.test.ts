import type { Transaction } from "@electric-sql/pglite";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { createPglite } from "../support/pglite.ts";
import { ledgerSuite } from "./conformance.ts";

ledgerSuite<Transaction>("PGlite", async () => {
  const db = await createPglite();
  return {
    database: pgliteDatabase(db),
    run: (tx, statement) => tx.query(statement),
    end: () => db.close(),
  };
});
