import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ErrorCode } from "../../src/errors.ts";
import type { Source } from "../../src/source/source.ts";
import { hostileBodies, hostileHeaders } from "./hostile.ts";
import { codeOf, leaks, NOW, NOW_S, receive, refusalOf, requestOf, type Headers } from "./support.ts";

export interface Subject {
  readonly name: string;
  /** A source that trusts two secrets. */
  readonly source: Source;
  /** The same with each of them alone. */
  readonly alone: readonly [Source, Source];
  /** A small body, as the sender writes it. */
  readonly body: string;
  /** Signs with the sender's own library, or by its specification. All headers that the sender sends. */
  sign(body: Uint8Array, secret: 0 | 1, seconds: number): Headers | Promise<Headers>;
  /** The headers that the signature covers or consists of: any change of them must be refused. */
  readonly signed: readonly string[];
  /** Whether the sender signs the time. */
  readonly timed: boolean;
  /** Whether a verification takes a tenth of a millisecond: then single bits are changed, not whole bytes. */
  readonly slow?: boolean;
  /** What must never be told. */
  readonly secrets: readonly string[];
}

const REFUSALS: ReadonlySet<ErrorCode | "accepted"> = new Set([
  "signature_missing",
  "signature_malformed",
  "signature_mismatch",
  "timestamp_too_old",
  "timestamp_in_future",
] as const);

const bytesOf = (text: string) => Buffer.from(text, "utf8");

/** What every source must do: the sender's signature is the only way in, and nothing gets a source off its feet. */
export function conformance(subject: Subject): void {
  const { source, body, signed, secrets } = subject;
  const sign = (text: Uint8Array, secret: 0 | 1 = 0, seconds = NOW_S) => subject.sign(text, secret, seconds);

  describe(`${subject.name}: what every source must do`, () => {
    it("accepts what the sender signed, with either of two secrets", async () => {
      for (const secret of [0, 1] as const) {
        const request = requestOf(body, await sign(bytesOf(body), secret));
        expect(codeOf(() => receive(source, request))).toBe("accepted");
        expect(codeOf(() => subject.alone[secret].verify(request, NOW))).toBe("accepted");
        expect(codeOf(() => subject.alone[secret === 0 ? 1 : 0].verify(request, NOW))).toBe(
          "signature_mismatch",
        );
      }
    });

    it("refuses every change of one byte of the body", async () => {
      const headers = await sign(bytesOf(body));
      const masks = Array.from({ length: 255 }, (_, index) => index + 1);
      const bits = [1, 2, 4, 8, 16, 32, 64, 128];
      const wrong: unknown[] = [];
      for (let position = 0; position < bytesOf(body).length; position++) {
        for (const mask of subject.slow ? bits : masks) {
          const changed = bytesOf(body);
          changed[position]! ^= mask;
          const code = codeOf(() => source.verify(requestOf(changed, headers), NOW));
          if (code !== "signature_mismatch") wrong.push([position, mask, code]);
        }
      }
      expect(wrong).toEqual([]);
    });

    it("refuses a body that is longer or shorter by a byte at either end", async () => {
      const headers = await sign(bytesOf(body));
      const bytes = bytesOf(body);
      const shorter = [bytes.subarray(1), bytes.subarray(0, -1), Buffer.alloc(0)];
      const longer = [`${body}\n`, `${body}\0`, ` ${body}`, body + body].map(bytesOf);
      for (const other of [...shorter, ...longer]) {
        expect(codeOf(() => source.verify(requestOf(other, headers), NOW))).toBe("signature_mismatch");
      }
    });

    it("refuses every change of one character of the signature and of what is signed beside the body", async () => {
      const headers = await sign(bytesOf(body));
      const wrong: unknown[] = [];
      for (const name of signed) {
        const value = headers[name]!;
        for (let position = 0; position < value.length; position++) {
          for (let code = 0x20; code < 0x7f; code++) {
            const changed = value.slice(0, position) + String.fromCharCode(code) + value.slice(position + 1);
            if (changed === value) continue;
            const request = requestOf(body, { ...headers, [name]: changed });
            const result = codeOf(() => source.verify(request, NOW));
            if (!REFUSALS.has(result)) wrong.push([name, changed, result]);
          }
        }
      }
      expect(wrong).toEqual([]);
    });

    it("says which header is missing", async () => {
      const headers = await sign(bytesOf(body));
      for (const name of signed) {
        const { [name]: _, ...others } = headers;
        for (const some of [others, { ...others, [name]: "" }]) {
          const refusal = refusalOf(() => source.verify(requestOf(body, some), NOW));
          expect(refusal?.code).toBe("signature_missing");
          expect(refusal?.message).toContain(name);
        }
      }
      expect(codeOf(() => source.verify(requestOf(body, {}), NOW))).toBe("signature_missing");
    });

    if (subject.timed) {
      it("refuses what was signed too long ago, or in the future, and nothing between", async () => {
        for (const [seconds, expected] of [
          [NOW_S - 300, "accepted"],
          [NOW_S + 300, "accepted"],
          [NOW_S - 301, "timestamp_too_old"],
          [NOW_S + 301, "timestamp_in_future"],
          [0, "timestamp_too_old"],
          [999_999_999_999_999, "timestamp_in_future"],
        ] as const) {
          const request = requestOf(body, await sign(bytesOf(body), 0, seconds));
          expect([seconds, codeOf(() => source.verify(request, NOW))]).toEqual([seconds, expected]);
          // Parts of a second do not count: the sender signs whole ones.
          expect(codeOf(() => source.verify(request, NOW + 999))).toBe(expected);
        }
        const request = requestOf(body, await sign(bytesOf(body)));
        expect(codeOf(() => source.verify(request, Number.NaN))).toBe("timestamp_too_old");
      });
    }

    it("calls what is not genuine not genuine, however old it says it is", async () => {
      const other = requestOf(`${body} `, await sign(bytesOf(body), 0, subject.timed ? 1 : NOW_S));
      expect(codeOf(() => source.verify(other, NOW))).toBe("signature_mismatch");
    });

    it("refuses hostile headers with a code, and tells nothing", async () => {
      const headers = await sign(bytesOf(body));
      const bodies = hostileBodies(body);
      const wrong: unknown[] = [];
      let combinations = 0;
      for (const name of signed) {
        for (const [index, value] of hostileHeaders(headers[name]!).entries()) {
          const some = Array.from({ length: 5 }, (_, turn) => bodies[(index + turn * 17) % bodies.length]!);
          for (const one of [bytesOf(body), ...some]) {
            combinations++;
            const refusal = refusalOf(() =>
              source.verify(requestOf(one, { ...headers, [name]: value }), NOW),
            );
            const told = leaks(refusal?.message ?? "", ...secrets, body, value.slice(0, 200));
            if (!REFUSALS.has(refusal?.code ?? "accepted") || told) wrong.push([name, value, refusal]);
          }
        }
      }
      expect(wrong).toEqual([]);
      expect(combinations).toBeGreaterThan(400);
    });

    it("refuses any headers and bodies at all that nobody signed", () => {
      const text = fc.oneof(
        fc.string({ unit: "binary" }),
        fc.string({ unit: "grapheme" }),
        fc.base64String(),
      );
      const header = fc.oneof(
        text,
        text.map((end) => `v1=${end}`),
        text.map((end) => `t=${NOW_S},v1=${end}`),
        fc.constant(String(NOW_S)),
      );
      const headers = fc.array(header, { minLength: signed.length, maxLength: signed.length });
      fc.assert(
        fc.property(headers, fc.uint8Array(), (values, some) => {
          const request = requestOf(some, Object.fromEntries(signed.map((name, at) => [name, values[at]!])));
          const refusal = refusalOf(() => source.verify(request, NOW));
          return REFUSALS.has(refusal?.code ?? "accepted") && !leaks(refusal!.message, ...secrets);
        }),
        { numRuns: 500 },
      );
    });

    it("identifies hostile bodies that are genuine, or calls them unreadable, and tells nothing", async () => {
      const wrong: unknown[] = [];
      for (const some of hostileBodies(body)) {
        const request = requestOf(some, await sign(some));
        const text = some.toString("utf8");
        const refusal = refusalOf(() => receive(source, request));
        if (refusal === undefined) continue;
        if (refusal.code !== "body_unreadable" || leaks(refusal.message, ...secrets, text))
          wrong.push([text, refusal]);
      }
      expect(wrong).toEqual([]);
    });

    it("does not read a byte order mark, nor bytes that are not UTF-8, even if they are genuine", async () => {
      const bom = bytesOf(`\ufeff${body}`);
      const latin = Buffer.from(`${body.slice(0, -1)},"\xff":1}`, "latin1");
      for (const some of [bom, latin]) {
        const request = requestOf(some, await sign(some));
        expect(codeOf(() => receive(source, request))).toBe("body_unreadable");
      }
    });

    it("does not take a byte that is not UTF-8 for the replacement character that was signed", async () => {
      const written = `${body.slice(0, -1)},"x":"\ufffd"}`;
      const other = Buffer.from(written.replace("\ufffd", "\xff"), "latin1");
      expect(new TextDecoder().decode(other)).toBe(written);
      const headers = await sign(bytesOf(written));
      expect(codeOf(() => source.verify(requestOf(written, headers), NOW))).toBe("accepted");
      expect(codeOf(() => source.verify(requestOf(other, headers), NOW))).toBe("signature_mismatch");
    });

    it("gives the handler what was signed", async () => {
      expect(await source.parse(bytesOf(body), { id: "1", type: "x" })).toEqual(JSON.parse(body));
    });
  });
}
