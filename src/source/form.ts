/** The first value of a field of an `application/x-www-form-urlencoded` text; undefined where absent. */
export function formField(text: string, field: string): string | undefined {
  return new URLSearchParams(text).get(field) ?? undefined;
}

/** All fields, first value each. Without a prototype, since the sender chooses the names. */
export function formFields(text: string): Record<string, string> {
  const fields = Object.create(null) as Record<string, string>;
  for (const [field, value] of new URLSearchParams(text)) fields[field] ??= value;
  return fields;
}
