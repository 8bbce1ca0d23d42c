import { OncewardError } from "../errors.ts";

/**
 * One text for equal JSON values (RFC 8785): members sorted by the UTF-16 units of their names, no white
 * space, numbers and strings as JSON.stringify writes them. A lone surrogate is refused: UTF-8 has no
 * form for it, so that two different texts would become one.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member)}`).join(",")}}`;
  }
  if (typeof value === "string" && !value.isWellFormed()) throw invalid("a lone surrogate");
  if (typeof value === "number" && !Number.isFinite(value)) throw invalid("a number that is not finite");
  const text =
    ["string", "number", "boolean"].includes(typeof value) || value === null
      ? JSON.stringify(value)
      : undefined;
  if (text === undefined) throw invalid(`a value of type ${typeof value}`);
  return text;
}

function invalid(what: string): OncewardError {
  return new OncewardError("value_invalid", `There is no canonical JSON for ${what}.`);
}
