/** What a statement says, read from its text and its parameters. */
import { textArrayLiteral } from "../../src/database/array.ts";
import type { Statement } from "./live.ts";

/** The verb of the ledger that a statement calls. */
export function verbOf({ text }: Statement): string | undefined {
  return /^(?:select\s+(?:[\w, ]+\sfrom\s+)?|call\s+(?=\S+_last\())"?onceward"?\.(\w+)\(/.exec(text)?.[1];
}

/** It ends a transaction. */
export function isEnding({ text }: Statement): boolean {
  return /^(commit|rollback)/i.test(text);
}

/** What explore.run_transaction can run: verbs, and writes that return nothing. */
export function isPlain(statement: Statement): boolean {
  return (
    verbOf(statement) !== undefined ||
    (/^(insert|update|delete) /i.test(statement.text) && !/returning/i.test(statement.text))
  );
}

/** A parameter as texts, "" for null. */
export function textsOf(value: unknown): string[] {
  return elementsOf(value)?.map((text) => text ?? "") ?? [String(value)];
}

/** Arrays come in the wire's binary form: 20 bytes of header, then length and bytes of each. */
function elementsOf(value: unknown): (string | null)[] | undefined {
  if (!(value instanceof Uint8Array)) return undefined;
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const texts: (string | null)[] = [];
  for (let at = 20; at < bytes.length;) {
    const length = bytes.readInt32BE(at);
    texts.push(length < 0 ? null : bytes.toString("utf8", at + 4, at + 4 + length));
    at += 4 + Math.max(length, 0);
  }
  return texts;
}

/** The statement with its parameters written into it. */
export function inlined({ text, values }: Statement): string {
  return text.replaceAll(/\$(\d+)/g, (_, number: string) => {
    const value = values[Number(number) - 1];
    const elements = elementsOf(value);
    return quoted(elements ? textArrayLiteral(elements) : (value as string));
  });
}

function quoted(value: string | null | undefined): string {
  return value === null || value === undefined ? "null" : `'${value.replaceAll("'", "''")}'`;
}

export interface Write {
  readonly scope: string;
  readonly key: string;
  readonly attempt: number;
}

/** Verbs that carry an attempt. */
const fenced = new Set([
  "complete_many",
  "complete_and_record_many",
  "fail_many",
  "renew_many",
  "step_save_many",
  "defer",
]);

/** The claims on whose behalf a statement writes. */
export function writesOf(statement: Statement): Write[] {
  if (!fenced.has(verbOf(statement) ?? "")) return [];
  const [scopes = [], keys = [], attempts = []] = statement.values.slice(0, 3).map(textsOf);
  return keys.map((key, i) => ({ scope: scopes[i] ?? "", key, attempt: Number(attempts[i]) }));
}
