/**
 * The elements of the list under `name` of a JSON object, as the very text they stand in: what was sent is kept as it
 * came, and a number above 2^53 or a key that stands twice would not survive being parsed and written again.
 * The text has been parsed before, so that it is known to be JSON.
 */
export function itemTexts(text: string, name: string): string[] {
  const items: string[] = [];
  let depth = 0;
  /** Where the list is: the depth of its elements, once its bracket has been passed. */
  let inList = false;
  let begun = -1;
  let key: string | undefined;
  const end = (at: number): void => {
    if (begun >= 0) items.push(text.slice(begun, at).trim());
    begun = -1;
  };
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      const from = i;
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      if (depth === 1) key ??= JSON.parse(text.slice(from, i + 1)) as string;
      if (inList && depth === 2 && begun < 0) begun = from;
    } else if (char === "{" || char === "[") {
      if (inList && depth === 2 && begun < 0) begun = i;
      if (depth === 1 && char === "[" && key === name) inList = true;
      depth++;
    } else if (char === "}" || char === "]") {
      depth--;
      if (inList && depth === 1) {
        end(i);
        return items;
      }
    } else if (char === ",") {
      if (depth === 1) key = undefined;
      if (inList && depth === 2) end(i);
    } else if (inList && depth === 2 && begun < 0 && /\S/.test(char as string)) {
      begun = i;
    }
  }
  return items;
}
