import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { textArrayBinary, textArrayLiteral } from "../../src/database/array.ts";
import { createPglite } from "../support/pglite.ts";
import { describeWith } from "../support/postgres.ts";

/** Any text that Postgres can keep: no NUL, no lone surrogates; rich in what the literal must escape. */
const text = fc
  .oneof(
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: "binary" }),
    fc.string({
      unit: fc.constantFrom('"', "\\", "{", "}", ",", " ", "\n", "\t", "'", "N", "ULL", "ü", "🙂"),
    }),
    fc.constantFrom("", "NULL", "null", "{}", '""', "\\"),
  )
  .map((value) => value.replaceAll("\0", "").toWellFormed());
const element = fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: fc.constant(null) });
const values = fc.array(element, { maxLength: 20 });

const asJson = "select to_jsonb($1::text[]) as read";

describeWith("newest", "a text[] as a parameter of pg", (fresh) => {
  let client: pg.Client;
  beforeAll(async () => {
    client = new pg.Client({ connectionString: fresh().url });
    await client.connect();
  });
  afterAll(() => client.end());

  it.each([
    ["literal", textArrayLiteral],
    ["binary", textArrayBinary],
  ])("comes back as it was, as a %s", async (_, encode) => {
    await fc.assert(
      fc.asyncProperty(values, async (array) => {
        const { rows } = await client.query(asJson, [encode(array)]);
        expect(rows[0].read).toEqual(array);
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ["literal", textArrayLiteral],
    ["binary", textArrayBinary],
  ])("is the same from bytes as from the text they are, as a %s", (_, encode) => {
    fc.assert(
      fc.property(values, (array) => {
        const bytes = array.map((value) => (value === null ? null : new TextEncoder().encode(value)));
        expect(encode(bytes)).toEqual(encode(array));
      }),
    );
  });
});

describe("a text[] as a parameter of PGlite", () => {
  it("comes back as it was", async () => {
    const db = await createPglite();
    await fc.assert(
      fc.asyncProperty(values, async (array) => {
        const { rows } = await db.query<{ read: unknown }>(asJson, [textArrayLiteral(array)]);
        expect(rows[0]?.read).toEqual(array);
      }),
      { numRuns: 200 },
    );
    await db.close();
  });
});
