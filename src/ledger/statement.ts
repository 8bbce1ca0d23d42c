import { isBytes } from "../bytes.ts";
import { textArrayLiteral } from "../database/array.ts";
import type { Param, Queryable, Texts } from "../database/database.ts";
import type { Argument } from "./argument.ts";
import { checkStorable } from "./check.ts";
import { quoteIdentifier } from "./schema.ts";

export interface Asked {
  readonly schema: string;
  readonly verb: string;
  readonly args: readonly Argument[];
  /** Of a verb that gives rows. Left out: one row, whose column `answer` is what the verb says. */
  readonly columns?: readonly string[] | undefined;
  /** For so long it waits for a lock; left out, however long it takes. Not in a transaction of somebody, whose limit it would be. */
  readonly lockWaitMs?: number | undefined;
}

/** A verb as it is sent, and how its rows are read. */
export interface Statement {
  readonly text: string;
  readonly params: Param[];
  readonly read: (rows: Row[]) => Row[];
}

type Row = Record<string, unknown>;

/** Of all columns that verbs answer with, those of jsonb. */
const json = ["answer", "steps"];

/**
 * Verbs of which one argument can be large. Inside a transaction `pg` copies a parameter once more for each that comes after it,
 * so this one is sent last. Where the driver sends arrays as they are, a procedure is called with the same arguments: a select would
 * be planned with them as constants (sql/002_record.sql).
 */
const large: Readonly<Record<string, { readonly argument: number; readonly procedure: string }>> = {
  record_many: { argument: 2, procedure: "record_call" },
  complete_and_record_many: { argument: 6, procedure: "complete_and_record_call" },
};

/** A verb as the statement that is sent, with its arguments as parameters in the form that the driver likes. */
export function statementOf(
  { takesTexts = false, jsonAsText = false }: Queryable,
  { schema, verb, args, columns, lockWaitMs }: Asked,
): Statement {
  const params: Param[] = [];
  const place = (arg: Argument): string => {
    if (arg === null || arg === undefined) return "null";
    if (!Array.isArray(arg)) {
      checkStorable(`An argument of ${verb}`, arg as string);
      return `$${params.push(arg as string)}::text`;
    }
    const texts = arg as Texts;
    checkTexts(verb, texts);
    // Through text, where a driver would otherwise try its own way with arrays.
    return takesTexts
      ? `$${params.push(texts)}::text[]`
      : `($${params.push(textArrayLiteral(texts))}::text)::text[]`;
  };
  const { argument: last, procedure } = large[verb] ?? {};
  const places: string[] = [];
  for (const [i, arg] of args.entries()) places.push(i === last ? "" : place(arg));
  if (last !== undefined) places[last] = place(args[last]);
  const called = (name: string): string => `${quoteIdentifier(schema)}.${name}(${places.join(", ")})`;
  const read = jsonAsText ? parsed : asTheyAre;
  const limit = lockWaitMs === undefined ? undefined : `'${lockWaitMs}'::text`;
  if (procedure !== undefined && takesTexts) {
    if (limit !== undefined) places.push(limit);
    return { text: `call ${called(procedure)}`, params, read };
  }
  const asked = columns?.map((name) => (jsonAsText && json.includes(name) ? `${name}::text` : name));
  if (asked) return { text: `select ${asked.join(", ")} from ${called(verb)}`, params, read };
  const asLong =
    limit === undefined ? "" : ` from (select set_config('lock_timeout'::text, ${limit}, true)) as patience`;
  return { text: `select ${called(verb)}${jsonAsText ? "::text" : ""} as answer${asLong}`, params, read };
}

function checkTexts(verb: string, texts: Texts): void {
  for (const one of texts) {
    if (typeof one === "string" || (one !== null && !isBytes(one)))
      checkStorable(`An argument of ${verb}`, one);
  }
}

function asTheyAre(rows: Row[]): Row[] {
  return rows;
}

function parsed(rows: Row[]): Row[] {
  return rows.map((row) => {
    const known = json.filter((name) => typeof row[name] === "string");
    return { ...row, ...Object.fromEntries(known.map((name) => [name, JSON.parse(row[name] as string)])) };
  });
}
