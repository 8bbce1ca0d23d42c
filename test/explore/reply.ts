/** What Postgres answers, and how it is asked so that it answers the same every time. */
import type pg from "pg";
import type { Statement } from "./live.ts";
import { inlined } from "./params.ts";

export type Reply =
  | { readonly rows: string; readonly command: string; readonly rowCount: number | null }
  | { readonly error: { readonly message: string; readonly code: string | undefined } };

/** Several statements in one message: the answers to those that say something, or the error. */
export function sent(client: pg.Client, texts: readonly string[]): Promise<Reply[]> {
  return client.query(texts.join(";")).then(
    (results) =>
      [results]
        .flat()
        .filter(({ command }) => !/^(BEGIN|SET|DO)$/.test(command))
        .map(replyOf),
    (error: pg.DatabaseError) => [errorOf(error)],
  );
}

/** As the driver would say it. */
export function selected(answer: string | null): Reply {
  const rows = JSON.parse(answer ?? "[]") as unknown[];
  return { rows: JSON.stringify(rows), command: "SELECT", rowCount: rows.length };
}

export function replyOf({ rows, command, rowCount }: pg.QueryResult): Reply {
  return { rows: JSON.stringify(rows), command, rowCount };
}

export function errorOf({ message, code }: { message: string; code?: string | undefined }): Reply {
  return { error: { message, code } };
}

/** Backoffs take a random part off; the same one every time, so that a schedule can be repeated. */
export function isRandom({ text }: Statement): boolean {
  return text.includes(".fail_many(");
}

export function seededText(statement: Statement): string {
  return isRandom(statement)
    ? `do 'begin perform setseed(0.5); end';${inlined(statement)}`
    : inlined(statement);
}

/** INSERT, SELECT, … */
export function commandOf({ text }: Statement): string {
  return /^\w+/.exec(text)![0].toUpperCase();
}
