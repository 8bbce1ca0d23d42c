import { OncewardError } from "../errors.ts";

export const defaultSchema = "onceward";

/** A schema name that can stand in SQL, comments included: letters, digits, `_`, `-` and spaces. */
export function checkSchemaName(name: string): string {
  if (!/^[\p{L}_][\p{L}\p{N}_ -]*$/u.test(name) || Buffer.byteLength(name) > 63 || name.startsWith("pg_")) {
    throw new OncewardError(
      "config_invalid",
      "A schema name has 1 to 63 bytes of letters, digits, _, - and spaces, starts with a letter or _, and not with pg_.",
    );
  }
  return name;
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text as it can stand in SQL, whatever `standard_conforming_strings` says. */
export function textLiteral(text: string): string {
  return `E'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
}
