import type { Command } from "commander";
import type { Queryable } from "../database/database.ts";
import { migrate, migrationSql } from "../ledger/migrate.ts";
import { plain } from "../terminal.ts";
import { withAddress } from "./address.ts";
import { ledgerCommand, type LedgerOptions } from "./command.ts";
import { findLedger } from "./open.ts";
import { Output } from "./output.ts";

/** `onceward migrate`. */
export function migrateCommand(): Command {
  return ledgerCommand("migrate", "bring the ledger's schema in a database up to date").action(
    async (options: LedgerOptions) => {
      const { once, url } = await findLedger(options, { make: true });
      try {
        const { schema } = once.engine.ledger;
        const { applied } = await migrate(once.database, { schema });
        const database = once.database.name === "embedded" ? undefined : await whereabouts(once.database);
        const where = `in schema ${plain(schema)} of ${shown(database)}`;
        new Output(options).answer({ applied, schema, database: database ?? null }, () =>
          applied.length === 0
            ? `The ledger ${where} is up to date.`
            : `Applied migrations ${applied.join(", ")} to the ledger ${where}.`,
        );
      } catch (error) {
        throw withAddress(error, url);
      } finally {
        await once.stop({ graceMs: 0 });
      }
    },
  );
}

interface Whereabouts {
  readonly name: string;
  readonly role: string;
  /** Null over a unix socket. */
  readonly address: string | null;
}

/** Which database it is, by its own word: a URL may lead elsewhere than it seems, and holds a password. */
async function whereabouts(database: Queryable): Promise<Whereabouts> {
  const { rows } = await database.query(
    `select current_database()::text as name, current_user::text as role,
       host(inet_server_addr()) || ':' || inet_server_port() as address`,
  );
  return rows[0] as unknown as Whereabouts;
}

function shown(database: Whereabouts | undefined): string {
  if (database === undefined) return "the embedded database in ./.onceward";
  const { name, role, address } = database;
  return plain(`the database ${name}${address === null ? "" : ` at ${address}`}, as ${role}`);
}

/** `onceward sql`: the very text that `migrate` runs. */
export function sqlCommand(options: { schema: string }): void {
  console.log(`${migrationSql(options)};`);
}
