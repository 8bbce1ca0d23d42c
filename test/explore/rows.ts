/** All rows of a database, read from the text that Postgres writes for a row. */
import type { Table } from "./live.ts";

export type Row = Readonly<Record<string, string | null>>;

/** By table name, "onceward.task" say. */
export interface Rows {
  of(table: string): readonly Row[];
}

export function readRows(tables: readonly Table[], dump: string): Rows {
  const written = JSON.parse(dump) as (string[] | null)[];
  const found = new Map(
    tables.map(({ name, columns }, i) => [name, (written[i] ?? []).map((text) => readRow(columns, text))]),
  );
  return { of: (table) => found.get(table) ?? [] };
}

/** `(a,"b ""c""",,"")`: an empty field is null, a quoted one may be empty. */
function readRow(columns: readonly string[], text: string): Row {
  const row: Record<string, string | null> = {};
  let at = 1;
  for (const column of columns) {
    if (text[at] === "," || text[at] === ")") {
      row[column] = null;
    } else {
      let value = "";
      let quoted = false;
      for (; quoted || (text[at] !== "," && text[at] !== ")"); at++) {
        if (text[at] === '"' && quoted && text[at + 1] === '"') value += text[at++];
        else if (text[at] === '"') quoted = !quoted;
        else if (text[at] === "\\") value += text[++at];
        else value += text[at];
      }
      row[column] = value;
    }
    at++;
  }
  return row;
}
