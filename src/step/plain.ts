/** Deeper than anything that people write down; it bounds the look at what holds itself. */
const maxDepth = 100;

/** What JSON.stringify writes down and JSON.parse brings back as it was. */
export function isPlainJson(value: unknown, depth = maxDepth): boolean {
  if (typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== "object" || depth === 0) return false;
  if (value === null) return true;
  if (Array.isArray(value)) {
    for (const one of value) if (!isPlainJson(one, depth - 1)) return false;
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  for (const name in value) {
    const one = (value as Record<string, unknown>)[name];
    // Properties that are undefined are left out by both ways. The names are those with a meaning to encodeValue.
    if (one !== undefined && (name === "$onceward" || name === "toJSON" || !isPlainJson(one, depth - 1)))
      return false;
  }
  return true;
}

/**
 * What JSON.parse would make of what JSON.stringify writes of this; of plain JSON alone. Its texts are shared and not
 * read anew, so that a copy takes a third of what parsing does (3 KB: 4 µs against 13), and leaves less garbage.
 */
export function copyOfPlainJson(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOfPlainJson);
  const copy = { ...value } as Record<PropertyKey, unknown>;
  for (const symbol of Object.getOwnPropertySymbols(copy)) Reflect.deleteProperty(copy, symbol);
  for (const name in copy) {
    const one = copy[name];
    if (one === undefined) Reflect.deleteProperty(copy, name);
    else if (typeof one === "object") copy[name] = copyOfPlainJson(one);
  }
  return copy;
}
