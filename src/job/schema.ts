/** Standard Schema, version 1, as far as we use it (standardschema.dev): the shape, so that no package is needed for it. */
export interface Schema<Input = unknown, Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaInput<S extends Schema> = NonNullable<S["~standard"]["types"]>["input"];
export type SchemaOutput<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/**
 * The value as the schema gives it back, or where it does not fit. A schema that throws has not said that: it may look
 * something up, and the next time find it.
 */
export async function validate(
  schema: Schema,
  value: unknown,
): Promise<{ value: unknown } | { problems: string }> {
  const validated = await schema["~standard"].validate(value);
  return validated.issues ? { problems: describe(validated.issues) } : { value: validated.value };
}

/** Where, and not what: messages of schema libraries repeat values, which can be personal. */
function describe(issues: readonly Issue[]): string {
  const places = issues.map(
    ({ path = [] }) => path.map((part) => String(keyOf(part))).join(".") || "the input itself",
  );
  const shown = [...new Set(places)].slice(0, 10);
  return `at ${shown.join(", ")}${places.length > shown.length ? " and more" : ""}`;
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): PropertyKey {
  return typeof part === "object" ? part.key : part;
}
