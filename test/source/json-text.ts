import fc from "fast-check";

/** Texts of JSON as rows of tokens, so that what is almost JSON is made as easily as what is. */
export type Tokens = readonly string[];

const marks = ["{", "}", "[", "]", ",", ":"];
const values = [
  ...words(`true false null 0 -0 7 10 -1.5e+10 0.25E-7 1e400 9007199254740993 "" "a" "id" "ä€😀" "}" ":"`),
  ...words(String.raw`"\"" "\\\\" "\ud83d" "\u0000\/\n" "\u0069d?"`),
  ...words('"\ufeff" "\u2028" "\u007f"'),
];
const keys = words('"" "ï" "id2" "dat" "ID" "objects" "{" "," "toString" "\u007f"');
export const escapedKeys: Tokens = words(String.raw`"\u0069d" "da\u0074a" "a\"b" "\\" "\/"`);

/** What is no token of JSON, or only a part of one. */
const broken = [
  ...words("01 - 1. 1e +1 .5 0x1 . e tru nul NaN a 'a' // \\ \0 \v \u00a0 \ufeff"),
  ...words(String.raw`" "a "\x" "\u12g4" "\u12" "\"`),
  ...["\0", "\t", "\n"].map((control) => `"${control}"`),
];

/** The tokens of an object; the names that are wanted come often, also twice in one object. */
export function objectTokens(wanted: Tokens, others: Tokens = []): fc.Arbitrary<Tokens> {
  const key = fc.constantFrom(...wanted.flatMap((name) => [`"${name}"`, `"${name}"`]), ...keys, ...others);
  const { object } = fc.letrec<{ value: Tokens; object: Tokens; list: Tokens }>((tie) => ({
    value: fc.oneof({ maxDepth: 8 }, fc.constantFrom(...values).map(one), tie("object"), tie("list")),
    object: fc.array(fc.tuple(key, tie("value")), { maxLength: 6 }).map((members) => {
      const items = members.map(([name, value]) => [name, ":", ...value]);
      return ["{", ...listed(items), "}"];
    }),
    list: fc.array(tie("value"), { maxLength: 4 }).map((items) => ["[", ...listed(items), "]"]),
  }));
  return object;
}

/** Any token, and what looks like one. */
export function anyToken(wanted: Tokens): fc.Arbitrary<string> {
  const kinds = [marks, values, wanted.map((name) => `"${name}"`), escapedKeys, broken];
  return fc.oneof(...kinds.map((tokens) => fc.constantFrom(...tokens)));
}

/** A row with some of its tokens left out, others put in or in their place. */
export function changed(rows: fc.Arbitrary<Tokens>, token: fc.Arbitrary<string>): fc.Arbitrary<Tokens> {
  const put = fc.oneof(fc.constant([]), token.map(one));
  const changes = fc.array(fc.tuple(fc.nat(), fc.nat(1), put), { minLength: 1, maxLength: 2 });
  return fc.tuple(rows, changes).map(([row, all]) => {
    const tokens = [...row];
    for (const [at, leftOut, putIn] of all) tokens.splice(at % (tokens.length + 1), leftOut, ...putIn);
    return tokens;
  });
}

/** The text of a row, with space of any kind between the tokens. */
export function written(rows: fc.Arbitrary<Tokens>): fc.Arbitrary<string> {
  const space = fc.constantFrom("", "", "", " ", "\n", "\t", "\r\n  ");
  const spaces = fc.array(space, { minLength: 1, maxLength: 7 });
  return fc
    .tuple(rows, spaces)
    .map(([row, some]) => row.map((token, index) => some[index % some.length] + token).join(""));
}

function listed(items: readonly Tokens[]): Tokens {
  return items.flatMap((item, index) => (index === 0 ? item : [",", ...item]));
}

function one(token: string): Tokens {
  return [token];
}

function words(text: string): string[] {
  return text.split(" ");
}
