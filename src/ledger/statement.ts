import { isBytes } from "../bytes.ts";
import { textArrayLiteral } from "../database/array.ts";
import type { Param, Queryable } from "../database/database.ts";
import type { Argument, Texts } from "./argument.ts";
import { checkStorable } from "./check.ts";
import { quoteIdentifier } from "./schema.ts";

export interface Asked {
  readonly schema: string;
  readonly verb: string;
  readonly args: readonly Argument[];
  /** Of a verb that gives rows. Left out: one row, whose column `answer` is what the verb says. */
  readonly columns?: string | undefined;
}

/**
 * Verbs of which one argument can be large. `pg` copies a parameter once more for each that comes after it, so this one
 * is sent last. Where the driver sends arrays as they are, a procedure is called with the same arguments: a select would
 * be planned with them as constants (sql/002_record.sql).
 */
const large: Readonly<Record<string, { readonly argument: number; readonly procedure: string }>> = {
  record_many: { argument: 2, procedure: "record_call" },
};

/** A verb as the statement that is sent, with its arguments as parameters in the form that the driver likes. */
export function statementOf(
  { encodeTextArray: encode }: Queryable,
  { schema, verb, args, columns }: Asked,
): { text: string; params: Param[] } {
  const params: Param[] = [];
  const place = (arg: Argument): string => {
    if (arg === null || arg === undefined) return "null";
    if (!Array.isArray(arg)) {
      checkStorable(`An argument of ${verb}`, arg as string);
      return `$${params.push(arg as string)}::text`;
    }
    for (const one of arg as Texts) {
      if (typeof one === "string" || (one !== null && !isBytes(one)))
        checkStorable(`An argument of ${verb}`, one);
    }
    // Through text, where a driver would otherwise try its own way with arrays.
    return encode
      ? `$${params.push(encode(arg))}::text[]`
      : `($${params.push(textArrayLiteral(arg))}::text)::text[]`;
  };
  const { argument: last, procedure } = large[verb] ?? {};
  const places = args.map((arg, i) => (i === last ? "" : place(arg)));
  if (last !== undefined) places[last] = place(args[last]);
  const called = (name: string): string => `${quoteIdentifier(schema)}.${name}(${places.join(", ")})`;
  if (columns !== undefined) return { text: `select ${columns} from ${called(verb)}`, params };
  if (procedure !== undefined && encode) return { text: `call ${called(procedure)}`, params };
  return { text: `select ${called(verb)} as answer`, params };
}
