/** Tests of every outcome, for the test of the reporter; not part of the suite. */
import { beforeAll, describe, expect, it } from "vitest";

it("passes", () => expect(1).toBe(1));

if (process.env.SAMPLE === "failing") {
  it("fails", () => expect(1).toBe(2));

  describe("a suite that cannot start", () => {
    beforeAll(() => {
      throw new Error("no server");
    });
    it("is not run", () => undefined);
    it("is not run either", () => undefined);
  });
}

if (process.env.SAMPLE === "broken") throw new Error("cannot be loaded");

if (process.env.SAMPLE !== "passing") {
  it("cannot run here", (context) => context.skip("no such machine"));
}
