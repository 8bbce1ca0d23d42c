import { deepStrictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isObject, readObject, readParts, type JsonObject } from "../../src/source/json.ts";
import { partsOf, skim, type Shape } from "../../src/source/skim.ts";
import { hostileBodies } from "./hostile.ts";
import { anyToken, changed, escapedKeys, objectTokens, written } from "./json-text.ts";
import { refusalOf, stripeEvents } from "./support.ts";

/** As for a Stripe event, with names that are parts of each other, that nest into themselves, or that objects inherit. */
const SHAPE: Shape = {
  id: true,
  type: true,
  data: { object: { id: true }, id: true },
  i: true,
  ïd: { ïd: true },
  "": { "": true },
  ["__proto__"]: { id: true },
  constructor: true as const,
};
const PARTS = partsOf(SHAPE);
const NAMES = [...Object.keys(SHAPE), "object"];

type Said = "found" | "gave up";

const bytesOf = (text: string) => Buffer.from(text, "utf8");

/** What JSON.parse finds, cut down to a shape. Throws where the body is no JSON object. */
function parsed(body: Uint8Array, shape = SHAPE): JsonObject {
  return cut(readObject("x", body), shape);
}

function cut(object: JsonObject, shape: Shape): JsonObject {
  const members = Object.create(null) as Record<string, unknown>;
  for (const [name, inner] of Object.entries(shape)) {
    if (!Object.hasOwn(object, name)) continue;
    const value = object[name];
    members[name] = inner !== true && isObject(value) ? cut(value, inner) : value;
  }
  return members;
}

/** Throws where the scanner finds what JSON.parse does not find; it may always give up. */
function compare(body: Uint8Array): Said {
  const found = skim(body, PARTS);
  if (found === undefined) return "gave up";
  deepStrictEqual(found, parsed(body));
  return "found";
}

function isReadable(body: Uint8Array): boolean {
  return refusalOf(() => readObject("x", body)) === undefined;
}

/** Real events, as they come and as people print them. */
const real = stripeEvents().flatMap((line) => [line, JSON.stringify(JSON.parse(line), null, 2)]);

describe("what is found", () => {
  it("is what JSON.parse finds in real events, without giving up", () => {
    const shape: Shape = { id: true, created: true, livemode: true, data: { object: { id: true } } };
    const parts = partsOf(shape);
    const isEvent = { id: expect.stringMatching(/^evt_/) as string, data: { object: {} } };
    expect(real.length).toBeGreaterThan(40);
    for (const text of real) {
      const foreign = ["ü€😀", String.raw`\u00fc\n\ud83d\ude00`].map((other) =>
        text.replaceAll("usd", other),
      );
      for (const body of [text, `\n${text}\r\n`, ...foreign].map(bytesOf)) {
        const found = skim(body, parts);
        expect(found).toMatchObject(isEvent);
        deepStrictEqual(found, parsed(body, shape));
      }
    }
  });

  it("is in the body, not in the buffer that the body is a part of", () => {
    const large = bytesOf('{"id":1}{"id":"abc","type":2}"}');
    const found = { id: "abc", type: 2 };
    expect(skim(large.subarray(8, 29), PARTS)).toEqual(found);
    expect(skim(new Uint8Array(large.buffer, large.byteOffset + 8, 21), PARTS)).toEqual(found);
    for (let length = 0; length < 21; length++)
      expect(skim(large.subarray(8, 8 + length), PARTS)).toBeUndefined();
  });

  it("is there however long the body is, and whatever was skimmed before", () => {
    for (const length of [65_530, 65_533, 65_534, 65_535, 65_536, 65_537, 200_000, 70, 65_534]) {
      const body = bytesOf(`{"id":"${"ä".repeat(20)}","x":"`.padEnd(length - 20 - 12, "x") + '","type":2}\n');
      expect(body).toHaveLength(length);
      expect(compare(body)).toBe("found");
      expect(skim(body.subarray(0, -2), PARTS)).toBeUndefined();
    }
  });

  it.each([
    ["numbers as JavaScript reads them", '{"id":9007199254740993,"type":-0,"i":1e400,"constructor":-1.5E-7}'],
    ["numbers of every form", '{"id":0,"type":0.0e+0,"i":123456789012345678901234567890,"constructor":10}'],
    ["escapes", String.raw`{"id":"\"\\\/\b\f\n\r\t\u00e4\uD83D\ude00","type":"\\"}`],
    ["halves of a surrogate pair", String.raw`{"id":"\ud800","type":"\udfff\ud800"}`],
    ["text beyond ASCII", '{"id":"ä€😀\u007f\u0085\u2028\ufeff","ïd":{"ïd":"\ufeffx"}}'],
    ["the last of equal members", '{"id":1,"type":2,"id":3,"type":{"a":4}}'],
    [
      "the last of equal objects, and nothing of the first",
      '{"data":{"object":{"id":1},"id":2},"data":{"id":3}}',
    ],
    ["an object after a value of the same name", '{"data":1,"data":{"id":2},"ïd":[],"ïd":{"ïd":1}}'],
    ["a value after an object of the same name", '{"data":{"id":2},"data":1,"ïd":{"ïd":1},"ïd":[{"ïd":1}]}'],
    ["values where objects were expected", '{"data":null,"ïd":"x","":[[]],"__proto__":false}'],
    ["whole objects and lists", '{"id":{"id":[1,{"":null}],"__proto__":{"a":1}},"type":[ ]}'],
    ["names that others begin with", '{"id2":1,"i":2,"dat":3,"data":{"objec":4,"object2":5,"obj":{"id":6}}}'],
    ["nothing of what is inherited", '{"toString":1,"constructor":{"prototype":2}}'],
    ["space of every kind", ' \t\r\n{ "id"\n:\r1\t, "data" : { } , "type":[ 1 , { } , [ ] , 2 ] } \t\r\n'],
    ["nothing in an empty object", "{}"],
  ])("has %s", (_, text) => {
    expect(compare(bytesOf(text))).toBe("found");
  });

  it("does not get a prototype from the body", () => {
    for (const text of ['{"__proto__":{"id":"evil","x":1}}', '{"data":{"__proto__":{"id":"evil"}}}']) {
      const found = skim(bytesOf(text), PARTS)!;
      expect(Object.getPrototypeOf(found)).toBeNull();
      expect(found["id"]).toBeUndefined();
    }
    expect(compare(bytesOf('{"id":1,"__proto__":{"id":"evil"},"__proto__":7}'))).toBe("found");
  });
});

/** Texts that JSON.parse refuses. A value stands for four texts: a wanted member, another, in a list, and further in. */
const REFUSED: Record<string, string[]> = {
  "at junk after the object": each(
    `{"id":1}x {"id":1}} {"id":1}, {"id":1}{} {"id":1}1 {"id":1}: {"id":1}" {}//`,
  ),
  "at what is no object": [...each(`[] [{"id":1}] "id" 1 null true : } id`), "", " ", "\n\n"],
  "at commas too many or too few": [
    ...each(`{"id":1,} {,"id":1} {,} {"id":1,,"i":2} {"x":[1,]} {"x":[,]} {"id":1,[]}`),
    '{"id":1 "i":2}',
    '{"x":[1 2]}',
    '{"x":[[] {}]}',
  ],
  "at colons too many or too few": each(
    `{"id"1} {"id"::1} {"id"} {"id":} {"id","i":1} {"id":1:2} {"x":[1:2]} {:1}`,
  ),
  "at brackets that do not match": each(
    `{"x":[1} {"x":{]} {"x":{"y":1]} {"id":1] {"x":[[]} {"x":{} {[]} {{}}`,
  ),
  "at the end, if it comes early": [
    ...each(
      String.raw`{ {" {"id {"id" {"id": {"id":" {"id":"a {"id":"a" {"id":1, {"id":"\ {"id":"\" {"id":"\u12`,
    ),
    ...each(
      '{"x":[ {"x":[1 {"x":[1, {"id":{ {"data":{ {"data":{"id":1 {"id":t {"id":nul {"id":- {"id":1. {"id":1e',
    ),
  ],
  "at false numbers": each(
    "01 -01 00 - +1 --1 1. .5 -.5 1.e1 1e 1e+ 1E- 1e1.5 1e1e1 1e+-1 0x1 1_0 1n NaN Infinity -a ١",
  ).flatMap(inside),
  "at false words": each("tru truE True fals falsy nul nulL nullx true1 undefined t f n").flatMap(inside),
  "at false escapes": [
    ...each(String.raw`\x \u \u1 \u12g4 \u123 \U0041 \' \0 \u-041 \u@@@@ \uGGGG`),
    "\\\n",
    "\\u 041",
  ]
    .flatMap(quoted)
    .flatMap(inside),
  "at raw control characters": ["\0", "\t", "\n", "\r", "\u001f"].flatMap(quoted).flatMap(inside),
  "at false strings": each(`'a' a "a""b" "a"b " "a a"`).flatMap(inside),
  "at false space": ["\v", "\f", "\u00a0", "\u2028", "\ufeff", "\0", "/**/"].flatMap((space) =>
    each('?{"id":1} {?"id":1} {"id"?:1} {"id":?1} {"id":1?} {"id":1}? {?}').map((text) =>
      text.replace("?", space),
    ),
  ),
  "at keys that are no strings": [
    ...each(`{id:1} {1:1} {null:1} {[]:1} {'id':1} {"id:1}`),
    '{"a\nb":1}',
    '{"id\t":1}',
  ],
};

function each(texts: string): string[] {
  return texts.split(" ");
}

function quoted(text: string): string {
  return `"${text}"`;
}

function inside(value: string): string[] {
  return [`{"id":${value}}`, `{"x":${value}}`, `{"x":[${value}]}`, `{"id":1,"x":{"y":${value}},"type":2}`];
}

describe("the scanner gives up", () => {
  it.each(Object.entries(REFUSED))("%s, which JSON.parse refuses", (_, texts) => {
    const bodies = texts.map(bytesOf);
    expect(bodies.filter(isReadable).map(String)).toEqual([]);
    expect(bodies.filter((body) => skim(body, PARTS) !== undefined).map(String)).toEqual([]);
  });

  it("at what is not UTF-8, wherever it stands", () => {
    const wrong = ["\xff", "\xe4", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"];
    for (const text of ['{"id":"?"}', '{"x":"?"}', '{"?":1}', '{"x":{"?":["?"]}}']) {
      for (const bytes of wrong)
        expect(skim(Buffer.from(text.replaceAll("?", bytes), "latin1"), PARTS)).toBeUndefined();
    }
  });

  it("at an escape in a key, which may spell what is wanted", () => {
    for (const text of each(
      String.raw`{"id":1,"\u0069d":2} {"data":{"i\u0064":2}} {"x\n":1} {"x":{"\\":1}}`,
    )) {
      expect(isReadable(bytesOf(text))).toBe(true);
      expect(skim(bytesOf(text), PARTS)).toBeUndefined();
    }
    expect(skim(bytesOf(String.raw`{"id":1,"a\"b":1}`), partsOf({ 'a"b': true, id: true }))).toBeUndefined();
  });

  it("where it would have to go too deep, and not before", () => {
    for (const [open, close] of [
      ["[", "]"],
      ['{"a":', "}"],
      ['{"id":[', "]}"],
      ['{"ïd":', "}"],
      ['{"data":{"object":', "}}"],
    ] as const) {
      const nested = (times: number) => bytesOf(`{"data":${open.repeat(times)}1${close.repeat(times)}}`);
      expect(compare(nested(30))).toBe("found");
      for (const times of [100, 6000]) expect(skim(nested(times), PARTS)).toBeUndefined();
      expect(skim(bytesOf(`{"data":${open.repeat(6000)}`), PARTS)).toBeUndefined();
      // Nor does it lose count where it stops.
      for (let times = 1; times < 100; times++)
        expect(compare(bytesOf(`{"data":${open.repeat(times)}${close.repeat(times - 1)}}`))).toBe("gave up");
    }
  });
});

describe("the scanner never finds what JSON.parse does not find", () => {
  it("in any JSON object, and gives up at nothing but escapes in keys", () => {
    fc.assert(
      fc.property(written(objectTokens(NAMES)), (text) => {
        expect(compare(bytesOf(text))).toBe("found");
      }),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(written(objectTokens(NAMES, escapedKeys)), (text) => {
        const isPlain = !escapedKeys.some((key) => text.includes(key));
        expect(compare(bytesOf(text))).toBe(isPlain ? "found" : "gave up");
      }),
      { numRuns: 1000 },
    );
  });

  it("in what JSON.stringify writes, with any keys", () => {
    const value = fc.jsonValue({ maxDepth: 2, stringUnit: "binary" });
    const key = fc.oneof(fc.constantFrom(...NAMES), fc.string({ unit: "binary", maxLength: 5 }));
    const object = fc.dictionary(key, fc.oneof(value, fc.dictionary(key, value)), { maxKeys: 8 });
    fc.assert(
      fc.property(object, fc.constantFrom(0, 1, "\t"), (some, indent) => {
        const text = JSON.stringify(some, null, indent);
        const said = compare(bytesOf(text));
        if (!text.includes("\\")) expect(said).toBe("found");
      }),
      { numRuns: 500 },
    );
  });

  it("in what is JSON but for a few tokens", () => {
    const said = { found: 0, "gave up": 0 };
    fc.assert(
      fc.property(written(changed(objectTokens(NAMES), anyToken(NAMES))), (text) => {
        said[compare(bytesOf(text))]++;
      }),
      { numRuns: 5000 },
    );
    // Both happened: what is changed may be JSON still.
    expect(said.found).toBeGreaterThan(100);
    expect(said["gave up"]).toBeGreaterThan(1000);
  });

  it("in any row of tokens", () => {
    fc.assert(
      fc.property(fc.array(anyToken(NAMES), { maxLength: 12 }), (row) => {
        compare(bytesOf(`{${row.join("")}`));
        compare(bytesOf(`{"id":${row.join("")}}`));
      }),
      { numRuns: 3000 },
    );
  });

  it("in a small event with any byte changed, left out or put in, or cut off anywhere", () => {
    const event = bytesOf(
      '{"id":"ä\\n","i": -1.5e+3,"data":{"object":{"id":"\\u00e4"},"x":[true,null,{}]}}\n',
    );
    expect(compare(event)).toBe("found");
    const bytes = Array.from({ length: 256 }, (_, byte) => Buffer.of(byte));
    for (let at = 0; at <= event.length; at++) {
      const [before, from, after] = [event.subarray(0, at), event.subarray(at), event.subarray(at + 1)];
      const puts = bytes.flatMap((byte) => [
        Buffer.concat([before, byte, from]),
        Buffer.concat([before, byte, after]),
      ]);
      for (const body of [before, Buffer.concat([before, after]), ...puts]) {
        // An escape in a key is the one thing that can come of it that is JSON, and is left to JSON.parse.
        if (compare(body) === "gave up" && isReadable(body)) expect(body.toString()).toMatch(/\\[^"]*":/);
      }
    }
  });

  it("in real events with a byte or two changed, left out or put in, or cut off", () => {
    const said = { found: 0, "gave up": 0 };
    const byte = fc.oneof(fc.constantFrom(...bytesOf('{}[]",:\\ \n0-.eu')), fc.nat(255));
    const change = fc.tuple(fc.nat(), fc.constantFrom("change", "leave out", "put in", "cut off"), byte);
    fc.assert(
      fc.property(
        fc.constantFrom(...real),
        fc.array(change, { minLength: 1, maxLength: 2 }),
        (text, changes) => {
          let body = bytesOf(text);
          for (const [number, kind, put] of changes) {
            const at = number % (body.length + 1);
            const after = body.subarray(kind === "put in" ? at : kind === "cut off" ? body.length : at + 1);
            const between = kind === "change" || kind === "put in" ? [put] : [];
            body = Buffer.concat([body.subarray(0, at), Buffer.from(between), after]);
          }
          said[compare(body)]++;
        },
      ),
      { numRuns: 4000 },
    );
    expect(said.found).toBeGreaterThan(200);
    expect(said["gave up"]).toBeGreaterThan(1000);
  });

  it("in any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), (some) => {
        compare(some);
        compare(Buffer.concat([bytesOf('{"id":"'), some, bytesOf('"}')]));
        compare(Buffer.concat([bytesOf('{"'), some, bytesOf('":1}')]));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("reading parts of a body", () => {
  it("refuses what reading all of it refuses, in the same words, and nothing else", () => {
    const bodies = hostileBodies('{"id":"1","type":"x","data":{"object":{"id":"o"}}}');
    const said = bodies.map((body) => {
      expect(refusalOf(() => readParts("x", body, PARTS))).toEqual(refusalOf(() => readObject("x", body)));
      return compare(body);
    });
    expect(new Set(said).size).toBe(2);
  });

  it("finds what is spelt with escapes", () => {
    expect(readParts("x", bytesOf(String.raw`{"id":1,"\u0069d":2}`), PARTS)).toEqual({ id: 2 });
  });
});
