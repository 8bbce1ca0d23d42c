import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../src/step/canonical.ts";
import { fingerprintOf } from "../../src/step/fingerprint.ts";

/** Text without lone surrogates, which canonical JSON has no form for. */
const text = fc.string({ unit: "binary" }).filter((one) => one.isWellFormed());
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "medium" },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    text,
    fc.array(tie("json"), { maxLength: 4 }),
    fc.dictionary(text, tie("json"), { maxKeys: 5 }),
  ),
}));

/** The same value with the members of every object in another order. */
function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, part]) => [name, shuffled(part)] as const)
      .toReversed(),
  );
}

describe("canonical JSON", () => {
  it("is one text for a value, whatever the order of its members", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(shuffled(value))).toBe(canonicalJson(value));
      }),
      { numRuns: 1000 },
    );
  });

  it("is JSON that means the same, and its own canonical form", () => {
    fc.assert(
      fc.property(json, (value) => {
        const canonical = canonicalJson(value);
        expect(JSON.parse(canonical)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(JSON.parse(canonical))).toBe(canonical);
      }),
      { numRuns: 1000 },
    );
  });

  it("differs for different values", () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(canonicalJson(a) === canonicalJson(b)).toBe(isDeepStrictEqual(plain(a), plain(b)));
      }),
      { numRuns: 1000 },
    );
  });

  it("sorts by UTF-16 units and writes numbers as RFC 8785 does", () => {
    // The order of section 3.2.3: '€' is above '\u0080', and the emoji's first unit is below U+FB33.
    const members = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\u{1f600}": 5, "\u0080": 6, "\u00f6": 7 };
    expect(canonicalJson(members)).toBe(
      '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\u{1f600}":5,"\ufb33":3}',
    );
    expect(
      canonicalJson([Number("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001, -0]),
    ).toBe("[333333333.3333333,1e+30,4.5,0.002,1e-27,0]");
    expect(canonicalJson('\u20ac$\u000f\nA\'B"\\\\"/')).toBe('"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"');
    expect(canonicalJson("e\u0301")).not.toBe(canonicalJson("\u00e9"));
  });

  it("has no form for what JSON or UTF-8 cannot say", () => {
    for (const value of [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      "\ud800",
      { "\udc00": 1 },
      () => 1,
      [undefined],
      1n,
    ]) {
      expect(() => canonicalJson(value)).toThrow(expect.objectContaining({ code: "value_invalid" }));
    }
  });
});

describe("a fingerprint", () => {
  it("is equal for equal values of any kind that can be kept, and only for them", () => {
    const at = new Date(5);
    expect(fingerprintOf({ b: at, a: new Set([1n]) })).toBe(
      fingerprintOf({ a: new Set([1n]), b: new Date(5) }),
    );
    const all = [
      at,
      at.toISOString(),
      5,
      "5",
      5n,
      undefined,
      null,
      [],
      {},
      [undefined],
      [null],
      "",
      -0,
      Number.NaN,
    ];
    expect(new Set(all.map(fingerprintOf)).size).toBe(all.length);
  });

  it("can be computed by any language for plain JSON", () => {
    // printf '%s' '{"a":"é","b":[1,2]}' | sha256sum
    expect(fingerprintOf({ b: [1, 2], a: "é" })).toBe(
      "9cfb1f938a87f2b8f3b8cc429c7a09116d54f048322742d4c23d4767b85f85da",
    );
  });
});

/** -0 is 0 in JSON. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
