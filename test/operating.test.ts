/** docs/operating.md: its programs have the right types, and what it names exists. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { Metrics } from "../src/cli/metrics.ts";
import { makeProgram } from "../src/cli/program.ts";
import { errorTable } from "../src/errors.ts";
import { typecheck } from "./support/typecheck.ts";

const page = readFileSync("docs/operating.md", "utf8");
const section = (heading: string): string => page.split(`\n## ${heading}`)[1]!.split("\n## ")[0]!;
const rows = (heading: string): string[] =>
  section(heading)
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .flatMap((line) => [...line.split("|")[1]!.matchAll(/`(\w+)/g)].map(([, name]) => name!));

describe("docs/operating.md", () => {
  it("has programs with the right types, and options that exist", async () => {
    mkdirSync(".onceward", { recursive: true });
    const folder = mkdtempSync(join(resolve(".onceward"), "operating-"));
    const options = (type: string, heading: string): string =>
      rows(heading)
        .map((name) => `export type _${name} = ${type}["${name}"];`)
        .join("\n");
    const programs = [
      ...[...page.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!),
      `import type { OnceOptions } from "onceward";
       ${options("OnceOptions<unknown>", "Options of createOnce")}`,
      `import type { PgOptions } from "onceward/pg";
       ${options("PgOptions", "Connections")}`,
      `import type { Config } from "onceward";
       ${options("Config", "The configuration")}`,
    ];
    try {
      const files = programs.map((text, i) => {
        writeFileSync(join(folder, `${i}.ts`), text);
        return `${i}.ts`;
      });
      expect(files).toHaveLength(5);
      expect(await typecheck(folder, files)).toBe("");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("names commands, codes, metrics and pages that exist", () => {
    const commands = makeProgram().commands.map((command) => command.name());
    for (const [, name] of page.matchAll(/`onceward (\w+)/g)) expect(commands).toContain(name);
    for (const [, code] of page.matchAll(/`((?:schema|pool)_\w+)`/g))
      expect(Object.keys(errorTable)).toContain(code);
    const metrics = new Metrics();
    metrics.received({ source: "stripe", outcome: "done", status: 200, ms: 1 });
    const text = metrics.text({ unfinished: [], parked: [] } as never);
    for (const name of rows("Logs and metrics")) expect(text).toContain(`# TYPE ${name} `);
    for (const [, file, anchor] of page.matchAll(/\]\(([\w-]+\.md)(?:#([\w-]+))?\)/g)) {
      expect(existsSync(join("docs", file!))).toBe(true);
      const headings = [...readFileSync(join("docs", file!), "utf8").matchAll(/^#+ (.*)$/gm)];
      if (anchor)
        expect(headings.map(([, one]) => one!.toLowerCase().replaceAll(" ", "-"))).toContain(anchor);
    }
  });
});
