/** docs/recovery.md: its program runs as it stands there, and its commands exist with their options. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, vi } from "vitest";
import { makeProgram } from "../../src/cli/program.ts";
import { describeOnCall } from "./support.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/recovery.md"), "utf8");
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``, "g"))].map((match) => match[1]!);

describe("docs/recovery.md", () => {
  it("names commands and options that exist", () => {
    const program = makeProgram();
    const lines = blocks("sh").flatMap((block) =>
      block.split("\n").filter((line) => line.startsWith("onceward ")),
    );
    expect(lines.length).toBeGreaterThan(10);
    const unknown = lines.filter((line) => {
      const command = program.commands.find((one) => one.name() === line.split(" ")[1]);
      const options = [...line.replace(/ #.*/, "").matchAll(/(?<= )--[a-z-]+/g)].map(([option]) => option);
      return !options.every((option) => command?.options.some(({ long }) => long === option)) || !command;
    });
    expect(unknown).toEqual([]);
  });

  it("has a heading for each of its links to itself", () => {
    const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, text]) =>
      text!
        .toLowerCase()
        .replaceAll(/[^\w -]/g, "")
        .replaceAll(" ", "-"),
    );
    for (const [, anchor] of page.matchAll(/\]\(#([^)]+)\)/g)) expect(headings).toContain(anchor);
  });
});

describeOnCall("newest", "the program of docs/recovery.md", (bench) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
  afterEach(() => {
    rmSync(folder, { recursive: true });
    vi.unstubAllEnvs();
  });

  it("lists what is stuck, and replays it", async () => {
    await bench().addDead("stripe", 3);
    vi.stubEnv("DATABASE_URL", bench().url);
    const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
    const file = join(folder, "program.ts");
    const program = blocks("ts")[0]!.replace('"onceward"', JSON.stringify(join(root, "src/index.ts")));
    writeFileSync(file, program);
    await import(file);
    expect(log.mock.calls).toEqual([["3 of stripe: dead"]]);
    log.mockRestore();
    expect(await bench().count("select count(*) from onceward.audit where actor = 'ann'")).toBe(3);
  });
});
