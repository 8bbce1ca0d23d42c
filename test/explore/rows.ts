/** Rows of the database, read from the text that Postgres writes for a row. */
export type Row = Readonly<Record<string, string | null>>;

/** By table name, "onceward.task" say. */
export interface Rows {
  of(table: string): readonly Row[];
}

/** `(a,"b ""c""",,"")`: an empty field is null, a quoted one may be empty. */
export function readRow(columns: readonly string[], text: string): Row {
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
