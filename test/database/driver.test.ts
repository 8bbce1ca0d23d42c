import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { asDriverMissing } from "../../src/database/driver.ts";

const errorOf = (action: () => unknown): unknown => {
  try {
    return action();
  } catch (error) {
    return error;
  }
};

describe("a driver that is not installed", () => {
  const missing = errorOf(() => createRequire(import.meta.url)("no-such-driver"));
  const missingModule = Object.assign(
    new Error("Cannot find package 'no-such-driver' imported from /app/x.js"),
    {
      code: "ERR_MODULE_NOT_FOUND",
    },
  );

  it.each([missing, missingModule])("is told with the command that installs it", (error) => {
    expect(asDriverMissing("no-such-driver", error)).toMatchObject({
      code: "driver_missing",
      message: "The package no-such-driver is not installed. Run: npm install no-such-driver",
      cause: error,
    });
  });

  it("is not blamed for other errors: of its own dependencies, or while it is loaded", () => {
    expect(asDriverMissing("pg", missing)).toBe(missing);
    const broken = new SyntaxError("Unexpected token");
    expect(asDriverMissing("pg", broken)).toBe(broken);
    expect(asDriverMissing("pg", "thrown")).toBe("thrown");
  });
});
