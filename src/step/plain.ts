/** Deeper than anything that people write down; it bounds the look at what holds itself. */
const maxDepth = 100;

/** Instead of a copy, where there is none. */
export const notPlain = Symbol("not plain JSON");

/**
 * What JSON.parse makes of what JSON.stringify writes of this value, or `notPlain` where that is not the same as the
 * value. Texts are shared and not read anew, so that it takes half as long as to parse (3 KB: 10 µs against 20, in a slow hour).
 */
export function plainCopy(value: unknown, depth = maxDepth): unknown {
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? value : notPlain;
  if (typeof value !== "object" || depth === 0) return notPlain;
  if (Array.isArray(value)) {
    const list: unknown[] = [];
    for (const one of value) {
      const copy = plainCopy(one, depth - 1);
      if (copy === notPlain) return notPlain;
      list.push(copy);
    }
    return list;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return notPlain;
  const object: Record<string, unknown> = {};
  for (const name in value) {
    const one = (value as Record<string, unknown>)[name];
    // As JSON does, which leaves out what is undefined.
    if (one === undefined) continue;
    // Names with a meaning to keep(), or to what is copied into.
    if (name === "$onceward" || name === "toJSON" || name === "__proto__") return notPlain;
    const copy = plainCopy(one, depth - 1);
    if (copy === notPlain) return notPlain;
    object[name] = copy;
  }
  return object;
}
