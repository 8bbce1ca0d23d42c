import { migrations } from "../ledger/sql.ts";

/** The names that the migrations create, and no later one drops. */
export function schemaNames(): { tables: string[]; indexes: string[]; functions: string[] } {
  const text = migrations.map((migration) => migration.text).join("\n");
  const names = (pattern: RegExp): string[] => [
    ...new Set([...text.matchAll(pattern)].map(([, name]) => name!)),
  ];
  return {
    tables: names(/^create table onceward\.(\w+)/gm),
    indexes: names(/^create (?:unique )?index (\w+) on onceward\./gm),
    functions: names(/^create (?:or replace )?(?:function|procedure) onceward\.(\w+)/gm),
  };
}
