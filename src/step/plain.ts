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
