import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fatal, OncewardError } from "../../src/errors.ts";
import { NotDone } from "../../src/step/outcome.ts";
import { decodeValue, encodeValue, keep } from "../../src/step/value.ts";

const through = (value: unknown): unknown => decodeValue(encodeValue(value) ?? null);

describe("a kept value", () => {
  it("comes back as it was, whatever JSON can say", () => {
    fc.assert(
      fc.property(fc.jsonValue({ depthSize: "medium" }), (value) => {
        // JSON.stringify writes -0 as 0; we do not.
        expect(through(value)).toStrictEqual(value);
      }),
      { numRuns: 500 },
    );
  });

  it("is told as it comes back, and nobody else holds that", () => {
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ maxDepth: 4 }, fc.jsonValue(), tie("object"), fc.array(tie("tree"), { maxLength: 4 })),
      object: fc.dictionary(
        fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "1", "toString")),
        fc.oneof(tie("tree"), fc.constant(undefined)),
        { noNullPrototype: false, maxKeys: 4 },
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        const { text, value: copy } = keep(value);
        // Not toStrictEqual, which believes what a property called `constructor` says.
        expect(isDeepStrictEqual(copy, decodeValue(text))).toBe(true);
        expect(encodeValue(copy)).toBe(text);
        const own = objectsIn(copy);
        expect([...objectsIn(value)].some((part) => own.has(part))).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ["a symbol", { a: 1, [Symbol("s")]: 2 }, { a: 1 }],
    ["what is hidden", Object.defineProperty({ a: 1 }, "b", { value: 2 }), { a: 1 }],
    ["what is frozen", Object.freeze({ a: Object.freeze([1]) }), { a: [1] }],
    ["a getter", Object.defineProperty({}, "a", { enumerable: true, get: () => 1 }), { a: 1 }],
  ])("is told without %s", (_, value, expected) => {
    const { value: copy } = keep(value);
    expect(Object.getOwnPropertyDescriptors(copy)).toStrictEqual(Object.getOwnPropertyDescriptors(expected));
    expect(Object.isFrozen((copy as { a: unknown }).a)).toBe(typeof expected.a !== "object");
  });

  it("is plain JSON where JSON suffices, so that any language can read it", () => {
    const value = { a: [1, "x", null, true], b: { c: -1.5e300 }, "": "\u0000\ud800" };
    expect(encodeValue(value)).toBe(JSON.stringify(value));
  });

  it("comes back as it was, also where JSON has no word for it", () => {
    const leaf = fc.oneof(
      fc.constantFrom(
        undefined,
        null,
        -0,
        Number.NaN,
        Number.POSITIVE_INFINITY,
        Number.NEGATIVE_INFINITY,
        true,
      ),
      fc.double(),
      fc.string({ unit: "binary", maxLength: 5 }),
      fc.bigInt(),
      fc.date({ noInvalidDate: false }),
      fc.uint8Array({ maxLength: 5 }),
      fc.float64Array({ maxLength: 4 }),
      fc.bigInt64Array({ maxLength: 4 }),
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.uint8Array().map((bytes) => new Uint8Array(bytes).buffer),
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ depthSize: "medium" }, leaf, tie("array"), tie("object"), tie("map"), tie("set")),
      array: fc.array(tie("tree"), { maxLength: 4 }),
      object: fc
        .dictionary(
          fc.oneof(fc.string(), fc.constantFrom("$onceward", "__proto__", "toJSON", "value")),
          tie("tree"),
          {
            maxKeys: 4,
          },
        )
        // A property that is undefined is left out, as JSON does.
        .map((one) => Object.fromEntries(Object.entries(one).filter(([, part]) => part !== undefined))),
      map: fc.array(fc.tuple(tie("tree"), tie("tree")), { maxLength: 3 }).map((entries) => new Map(entries)),
      set: fc.array(tie("tree"), { maxLength: 3 }).map((parts) => new Set(parts)),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        expect(through(value)).toStrictEqual(value);
      }),
      { numRuns: 300 },
    );
  });

  it("leaves out undefined properties and keeps undefined elements", () => {
    expect(through({ a: undefined, b: 1 })).toStrictEqual({ b: 1 });
    expect(through([undefined])).toStrictEqual([undefined]);
    expect(through(undefined)).toBe(undefined);
    expect(encodeValue(undefined)).toBe(undefined);
  });

  it("keeps an error's kind, name, message, code and cause", () => {
    const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    const error = through(new TypeError("fetch failed", { cause })) as Error;
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({
      name: "TypeError",
      message: "fetch failed",
      cause: { code: "ECONNREFUSED" },
    });
    expect(through(new Fatal("no"))).toBeInstanceOf(Fatal);
    expect(through(new NotDone("no"))).toBeInstanceOf(NotDone);
    const ours = through(new OncewardError("already_running", "wait")) as OncewardError;
    expect(ours).toBeInstanceOf(OncewardError);
    expect(ours).toMatchObject({ code: "already_running", status: 409, retry: true });
    class Declined extends Error {
      override readonly name = "Declined";
      readonly code = 402;
    }
    const declined = through(new Declined("card")) as Error;
    expect(declined).toBeInstanceOf(Error);
    expect(declined).toMatchObject({ name: "Declined", message: "card", code: 402 });
    expect(through(Object.assign(new Error("x"), { name: "OncewardError", code: "made up" }))).toMatchObject({
      code: "made up",
    });
  });

  it("keeps that an error of a class of one's own is final", () => {
    class OutOfStock extends Fatal {
      override readonly name = "OutOfStock";
    }
    const read = decodeValue(encodeValue(new OutOfStock("none left"))) as Error;
    expect(read).toBeInstanceOf(Fatal);
    expect(read).toMatchObject({ name: "OutOfStock", message: "none left" });
  });

  it("takes what says itself how it is written, and the data of an instance", () => {
    expect(through(new URL("https://example.com/a"))).toBe("https://example.com/a");
    class Point {
      readonly x = 1;
      readonly y = 2;
    }
    expect(through(new Point())).toStrictEqual({ x: 1, y: 2 });
    expect(through(Object.assign(Object.create(null), { a: 1 }))).toStrictEqual({ a: 1 });
  });

  it("is refused where it could not come back, and the message says why", () => {
    const ring: { self?: unknown } = {};
    ring.self = { ring };
    const refused: [unknown, RegExp][] = [
      [() => 1, /holds a function/],
      [{ call: () => 1 }, /holds a function/],
      [Symbol("x"), /holds a symbol/],
      [ring, /holds itself/],
      [new Map([[ring, 1]]), /holds itself/],
      [new Response("x"), /a Response without properties/],
      [Promise.resolve(1), /a Promise without properties/],
      [[new WeakMap()], /a WeakMap without properties/],
      [deep(100_000), /nested too deeply/],
    ];
    for (const [value, why] of refused) {
      expect(() => encodeValue(value)).toThrow(why);
      expect(() => encodeValue(value)).toThrow(expect.objectContaining({ code: "value_invalid" }));
    }
    expect(() => encodeValue("x".repeat(16 * 1024 * 1024))).toThrow(
      expect.objectContaining({ code: "payload_too_large" }),
    );
    expect(() => decodeValue('{"$onceward":"later"}')).toThrow(
      expect.objectContaining({ code: "value_invalid" }),
    );
  });

  it("may hold one thing in two places", () => {
    const shared = { a: 1 };
    expect(through([shared, shared])).toStrictEqual([shared, shared]);
  });
});

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

function objectsIn(value: unknown, found = new Set<object>()): Set<object> {
  if (typeof value !== "object" || value === null) return found;
  found.add(value);
  for (const part of Object.values(value)) objectsIn(part, found);
  return found;
}
