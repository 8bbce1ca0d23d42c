import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/support/reporter-sample.ts"],
    reporters: ["default", "./test/support/reporter.ts"],
  },
});
