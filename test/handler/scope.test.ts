import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  conflictScope,
  eventScope,
  handlerOfScope,
  handlerScope,
  handlerSegment,
} from "../../src/handler/scope.ts";

const longest = "s".repeat(63);

describe("scopes", () => {
  it.each([
    [undefined, true, "stripe"],
    [undefined, undefined, "stripe"],
    [undefined, false, "stripe/test"],
    ["acct_1", true, "stripe/acct_1"],
    ["acct_1", false, "stripe/acct_1/test"],
    ["test", true, "stripe/%74est"],
    ["#mail", true, "stripe/%23mail"],
    ["!conflict", true, "stripe/%21conflict"],
    ["a/b%", true, "stripe/a%2fb%25"],
    ["shop.example.com", undefined, "stripe/shop.example.com"],
  ])("of account %j and livemode %j is %s", (account, livemode, scope) => {
    expect(eventScope("stripe", account, livemode)).toBe(scope);
  });

  it("are different for different accounts, modes, handlers and conflicts, and never too long", () => {
    const account = fc.option(
      fc.oneof(
        fc.string({ minLength: 1, maxLength: 200 }),
        fc.constantFrom("test", "%74est", "#a", "!conflict", "~", "a/test", "a"),
      ),
      { nil: undefined },
    );
    const handler = fc.option(
      fc.oneof(fc.string({ minLength: 1, maxLength: 200 }), fc.constantFrom("a", "test", "#a")),
      { nil: undefined },
    );
    const parts = fc.record({ account, live: fc.boolean(), conflict: fc.boolean(), handler });
    type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;
    const scopeOf = (of: Parts): string => {
      const event = eventScope(longest, of.account, of.live);
      const base = of.conflict ? conflictScope(event) : event;
      return of.handler === undefined ? base : handlerScope(base, of.handler);
    };
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const [a, b] = [scopeOf(one), scopeOf(other)];
        expect(a === b).toBe(JSON.stringify(one) === JSON.stringify(other));
        expect(a.startsWith(longest)).toBe(true);
        expect(Buffer.byteLength(a)).toBeLessThanOrEqual(255);
        expect(handlerOfScope(a)).toBe(one.handler === undefined ? undefined : handlerSegment(one.handler));
      }),
      { numRuns: 2000 },
    );
  });
});
