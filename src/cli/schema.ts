import { openDatabase } from "../database/open.ts";
import { migrate, migrationSql } from "../ledger/migrate.ts";

/** `onceward migrate`. */
export async function migrateCommand(options: { database?: string; schema: string }): Promise<void> {
  const database = openDatabase(options.database ?? process.env["DATABASE_URL"]);
  try {
    const { applied } = await migrate(database, options);
    console.log(
      applied.length === 0 ? "The ledger is up to date." : `Applied migrations ${applied.join(", ")}.`,
    );
  } finally {
    await database.close();
  }
}

/** `onceward sql`: the very text that `migrate` runs. */
export function sqlCommand(options: { schema: string }): void {
  console.log(`${migrationSql(options)};`);
}
