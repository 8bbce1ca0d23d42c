import { describe, expect, it } from "vitest";
import { decodeBase64, decodeHex, fingerprintOf } from "../../src/source/bytes.ts";
import { formFields } from "../../src/source/form.ts";
import { hmacKeys, hmacMatches } from "../../src/source/hmac.ts";
import { accountWord, at, hintWord, readObject, word } from "../../src/source/json.ts";
import { signatureHeader } from "../../src/source/request.ts";
import { dateFromSeconds, dateFromText } from "../../src/source/timestamp.ts";
import { codeOf, refusalOf, requestOf } from "./support.ts";

describe("strict decoding", () => {
  it("takes one form of hex only", () => {
    expect(decodeHex("00ff", 2)).toEqual(Buffer.from([0, 255]));
    for (const text of ["00FF", "00f", "00ff0", "00fg", " 0ff", "", "0x00", "٠٠٠٠"]) {
      expect(decodeHex(text, 2)).toBeUndefined();
    }
  });

  it("takes one form of base64 only", () => {
    expect(decodeBase64("AP8=", 2)).toEqual(Buffer.from([0, 255]));
    // Without padding, with unused bits set, in the alphabet for URLs, with more than it should have.
    for (const text of ["AP8", "AP9=", "AP-=", "AP8=AP8=", "AP8= ", " AP8=", "A", "", "====", "A P8="]) {
      expect(decodeBase64(text, 2)).toBeUndefined();
    }
    expect(decodeBase64("AP8=")).toHaveLength(2);
  });
});

describe("a fingerprint", () => {
  it("does not let neighbouring values run together", () => {
    const lists = [
      ["a", "bc"],
      ["ab", "c"],
      ["abc"],
      ["abc", undefined],
      [undefined, "abc"],
      ["a", "b", "c"],
      [1],
      ["1"],
    ];
    expect(new Set(lists.map((parts) => fingerprintOf(parts))).size).toBe(lists.length);
  });
});

describe("an HMAC", () => {
  it("is not matched by a part of it, nor does a part break the comparison", () => {
    const check = {
      algorithm: "sha256",
      keys: hmacKeys(["secret"]),
      prefix: "",
      body: Buffer.from("x"),
    } as const;
    expect(hmacMatches({ ...check, candidates: [Buffer.alloc(31), Buffer.alloc(0), Buffer.alloc(33)] })).toBe(
      false,
    );
    expect(hmacMatches({ ...check, candidates: [] })).toBe(false);
  });
});

describe("reading a body", () => {
  it("finds what the body has, and nothing that objects inherit", () => {
    const body = readObject("x", Buffer.from('{"a":{"b":1},"__proto__":{"c":2}}'));
    expect(at(body, "a", "b")).toBe(1);
    for (const path of [["toString"], ["a", "constructor"], ["c"], ["a", "b", "toFixed"], ["z", "y"]]) {
      expect(at(body, ...path)).toBeUndefined();
    }
    expect(at(body, "__proto__", "c")).toBe(2);
  });

  it.each(["null", "1", '"x"', "[]", "true"])("wants an object: not %s", (text) => {
    expect(refusalOf(() => readObject("x", Buffer.from(text)))?.message).toContain("not a JSON object");
  });

  it("reads a part of a larger buffer as that part", () => {
    const large = Buffer.from('xx{"a":1}xx');
    expect(readObject("x", large.subarray(2, -2))).toEqual({ a: 1 });
    expect(readObject("x", new Uint8Array(large.buffer, large.byteOffset + 2, large.length - 4))).toEqual({
      a: 1,
    });
  });

  it("takes for an id what can be stored, compared and indexed", () => {
    for (const value of ["a", "a b", "ä", "😀", "x".repeat(255), 7, 2 ** 53 - 1])
      expect(word("x", "id", value)).toBe(String(value));
    for (const value of [
      "",
      "a\0",
      "a\n",
      "\x7f",
      "\u0085",
      "\ud800",
      "x".repeat(256),
      2 ** 53,
      0.5,
      Number.NaN,
      true,
      null,
      {},
    ]) {
      expect(codeOf(() => word("x", "id", value))).toBe("body_unreadable");
      expect(hintWord(value)).toBeUndefined();
    }
  });

  it("takes for an account what fits into a scope", () => {
    expect(accountWord("x", "org_1/acct_2")).toBe("org_1/acct_2");
    expect(accountWord("x", "a".repeat(128))).toHaveLength(128);
    for (const none of [undefined, null, ""]) expect(accountWord("x", none)).toBeUndefined();
    for (const value of ["a".repeat(129), "a b", "ä"])
      expect(codeOf(() => accountWord("x", value))).toBe("body_unreadable");
  });

  it("reads the fields of a form by whatever name, the first of each", () => {
    expect(Object.entries(formFields("a=1&a=2&toString=3&__proto__=4&b=%20+"))).toEqual([
      ["a", "1"],
      ["toString", "3"],
      ["__proto__", "4"],
      ["b", "  "],
    ]);
  });
});

describe("a signature header", () => {
  it("has a length that bounds the work", () => {
    const read = (length: number) =>
      refusalOf(() => signatureHeader("x", requestOf("", { "x-sig": "a".repeat(length) }), "x-sig"));
    expect(read(4096)).toBeUndefined();
    expect(read(4097)).toMatchObject({
      code: "signature_malformed",
      message: expect.stringContaining("longer") as string,
    });
  });
});

describe("a time that the sender tells", () => {
  it("is told on in one form, or not at all", () => {
    expect(dateFromSeconds(0)).toEqual(new Date("1970-01-01T00:00:00.000Z"));
    expect(dateFromSeconds(253_402_300_799)).toEqual(new Date("9999-12-31T23:59:59.000Z"));
    for (const value of [-1, 253_402_300_800, Number.NaN, Infinity, "1", null])
      expect(dateFromSeconds(value)).toBeUndefined();
    expect(dateFromText("2026-01-02T03:04:05.678901Z")).toEqual(new Date("2026-01-02T03:04:05.678Z"));
    for (const value of ["never", "", 7, "+275760-09-13T00:00:00Z", `2026-01-02${" ".repeat(99)}`]) {
      expect(dateFromText(value)).toBeUndefined();
    }
  });
});
